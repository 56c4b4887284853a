/* The same for the HIP runtime, whose errors carry a sentence. */
#include "runtime.h"
#include "stub.h"

int rocke_stub(int *said, const char *function, int code) {
    *said = 1;
    return fail((Error)code, "%s is not supported on the virtual device", function);
}

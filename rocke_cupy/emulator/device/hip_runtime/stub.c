#include "stub.h"

#include <stdio.h>

#include "runtime.h"

int hip_stub(const char *function, int code) {
    return fail((Error)code, "%s is not supported on the virtual device", function);
}

int other_stub(int *said, const char *function, int code) {
    if (!*said)
        fprintf(stderr, "rocke_cupy: %s is not supported on the virtual device\n", function);
    *said = 1;
    return code;
}

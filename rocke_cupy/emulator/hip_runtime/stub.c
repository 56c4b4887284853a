#define _GNU_SOURCE
#include "stub.h"

#include <dlfcn.h>
#include <stdio.h>

int rocke_stub(int *said, const char *function, int code) {
    if (!*said)
        fprintf(stderr, "rocke_cupy: %s is not supported on the virtual device\n", function);
    *said = 1;
    return code;
}

void *rocke_runtime_function(const char *name) {
    void *runtime = dlopen("libamdhip64.so.7", RTLD_NOW);
    return runtime ? dlsym(runtime, name) : NULL;
}

int rocke_request(const char *runtime_function, const char *caller, const void *request) {
    int (*send)(const void *) = (int (*)(const void *))rocke_runtime_function(runtime_function);
    const char *(*explain)(int) = (const char *(*)(int))rocke_runtime_function("hipGetErrorString");
    if (!send || !explain) return 1;
    int error = send(request);
    if (error) fprintf(stderr, "rocke_cupy: %s: %s\n", caller, explain(error));
    return error;
}

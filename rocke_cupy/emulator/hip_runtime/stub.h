/* What the stand-ins of libraries other than the HIP runtime share. */
#ifndef ROCKE_STUB_H
#define ROCKE_STUB_H

#define HIDDEN __attribute__((visibility("hidden")))

/* Note (once for each function) that it is not there; return the library's code for that. */
int rocke_stub(int *said, const char *function, int code) HIDDEN;

/* A stub is weak, so that an implementation elsewhere in the library takes its place. */
#define STUB(function, code)                                          \
    __attribute__((weak, visibility("default"))) int function(void) { \
        static int said;                                              \
        return rocke_stub(&said, #function, code);                    \
    }

/* A function of the HIP runtime stand-in of this process, or null. */
void *rocke_runtime_function(const char *name) HIDDEN;

/* Hand a request to Python by a function of the runtime stand-in; 0 if it was done. Otherwise the
 * reason is on standard error: these libraries' own errors are bare numbers. */
int rocke_request(const char *runtime_function, const char *caller, const void *request) HIDDEN;

#endif

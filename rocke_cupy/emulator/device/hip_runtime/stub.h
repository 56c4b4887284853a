/* Functions that the virtual device does not have. Their list is generated from what CuPy imports.
 */
#ifndef ROCKE_STUB_H
#define ROCKE_STUB_H

/* A stub is weak, so that the implementation in another file takes its place. */
#define WEAK_EXPORT __attribute__((weak, visibility("default")))

/* Of the HIP runtime, whose errors carry a sentence. */
#define HIP_STUB(function, code) \
    WEAK_EXPORT int function(void) { return hip_stub(#function, code); }

/* Of the other libraries, whose errors are bare numbers: the sentence goes to standard error, once.
 */
#define STUB(function, code)                       \
    WEAK_EXPORT int function(void) {               \
        static int said;                           \
        return other_stub(&said, #function, code); \
    }

int hip_stub(const char *function, int code);
int other_stub(int *said, const char *function, int code);

#endif

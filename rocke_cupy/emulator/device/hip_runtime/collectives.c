/* RCCL: the functions whose answer is text; the others are generated as not supported. */
#define EXPORT __attribute__((visibility("default")))

EXPORT const char *ncclGetErrorString(int code) {
    return code ? "collectives are not supported on the virtual device" : "no error";
}

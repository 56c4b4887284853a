/* What the parts of the libamdhip64 stand-in share.
 *
 * Device memory is ordinary host memory in one reserved range of addresses, so a device pointer can
 * be read by the host side of this library and by the emulator as it is. Modules and launches are
 * handed to Python (`rocke_cupy.emulator.device.callbacks`), which registers its functions at the first call
 * that needs them.
 */
#ifndef ROCKE_RUNTIME_H
#define ROCKE_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

/* Values of hipError_t that the library returns (HIP's public numbering). */
typedef enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_CONFIGURATION = 9,
    INVALID_DEVICE_FUNCTION = 98,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    NO_BINARY_FOR_GPU = 209,
    FILE_NOT_FOUND = 301,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    PEER_ACCESS_ALREADY_ENABLED = 704,
    PEER_ACCESS_NOT_ENABLED = 705,
    LAUNCH_FAILURE = 719,
    NOT_SUPPORTED = 801,
    UNKNOWN = 999,
} Error;

/* error.c: note `error` as this thread's last one, with a sentence that hipGetErrorString returns.
 */
Error fail(Error error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with the sentence noted before by rocke_set_message. */
Error fail_with_message(Error error);
/* For an error that the caller may not look at: unless it asks for the last error, the next call
 * that names a stream, copies or synchronises returns it, as a device tells of a fault in a kernel.
 */
Error tell_later(Error error);
Error told_late(void);
const char *hipGetErrorString(Error error);
#define NOT_SUPPORTED_HERE(what) \
    fail(NOT_SUPPORTED, "%s is not supported on the virtual device", what)

/* device.c */
#define MAX_DEVICES 8
enum {
    WARP_SIZE = 64,
    COMPUTE_UNITS = 256,
    MAX_THREADS_PER_BLOCK = 1024,
    LDS_BYTES = 163840, /* of a compute unit, and the most that one workgroup gets */
};
#define DEVICE_MEMORY_BYTES ((size_t)288 << 30)
int device_count(void);
int current_device(void);
Error check_device(int device);
/* Devices whose memory kernels on `device` may touch, as a bit mask. */
unsigned peers_of(int device);

/* hipLimitStackSize of a device. */
size_t stack_bytes_of(int device);

/* memory.c */
typedef enum { DEVICE_MEMORY, HOST_MEMORY, MANAGED_MEMORY, MODULE_VARIABLE } MemoryKind;
typedef struct {
    uintptr_t address;
    size_t size;
    int32_t device;
    int32_t kind;
} Allocation;
Error allocate(void **pointer, size_t size, MemoryKind kind);
/* Make a variable of a module known, so that it can be copied to and from. */
Error adopt_variable(void *address, size_t size, int device);
/* Copy the live allocation that covers `pointer` and return 1; 0 if there is none. */
int find_allocation(const void *pointer, Allocation *found);
/* Whether `pointer` lies in the range of addresses that device memory is taken from. */
int in_arena(const void *pointer);

/* stream.c */
Error check_stream(const void *stream, int *device);

/* callbacks.c: what Python registers. Every function returns what `settle` takes. */
typedef struct {
    uint64_t module;
    uint64_t kernel;
    uint32_t max_threads;
    uint32_t static_lds;
    uint32_t scratch_bytes;
    uint32_t vector_registers;
} FunctionInfo;
typedef struct {
    uint64_t module;
    uint64_t kernel;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t shared_bytes;
    int32_t device;
    uint64_t stack_bytes; /* of a lane, for kernels with a dynamic stack */
    void **arguments;   /* one pointer an argument, or null */
    const void *packed; /* the argument block as it is, or null */
    size_t packed_bytes;
} LaunchRequest;
typedef struct {
    int32_t trans_a, trans_b; /* 0 as it is, 1 transposed, 2 conjugate transposed */
    int32_t m, n, k, batch;
    int32_t type_a, type_b, type_c, type_scalar; /* hipDataType */
    int32_t is_pointer_array;                    /* a, b, c are arrays of `batch` pointers */
    const void *alpha, *beta;
    const void *a, *b;
    void *c;
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c;
} MatrixProduct;
typedef struct {
    uint64_t generator, seed, offset;
} RandomSeed;
typedef struct {
    int32_t distribution; /* 0 uniform, 1 normal, 2 log-normal, 3 raw 32-bit integers, 4 Poisson */
    int32_t bytes;        /* of one number */
    uint64_t generator;
    void *output;
    size_t count;
    double mean, deviation;
} RandomDraw;
typedef struct {
    int (*load_module)(const void *image, uint64_t *module);
    int (*unload_module)(uint64_t module);
    int (*find_function)(uint64_t module, const char *name, FunctionInfo *info);
    int (*find_global)(uint64_t module, const char *name, void **address, size_t *size);
    int (*launch)(const LaunchRequest *request);
    int (*matrix_product)(const MatrixProduct *product);
    int (*random_seed)(const RandomSeed *seed);
    int (*random_draw)(const RandomDraw *draw);
} Callbacks;
/* Null, with the error noted, if there is no Python in this process or it cannot import the
 * package. */
const Callbacks *python(void);
/* Turn what a callback returned into an error. Ctrl-C in a callback comes out of it as INTERRUPTED
 * and becomes a success here, with the signal pending again: Python then raises KeyboardInterrupt
 * in the script right after the call, where an error would be raised instead of it. */
enum { INTERRUPTED = -1 };
Error settle(int status);
typedef enum { MATRIX_PRODUCT, RANDOM_SEED, RANDOM_DRAW } Request;
Error ask_python(const char *caller, Request kind, const void *request);

#endif

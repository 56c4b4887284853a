/* Kernels compiled into a shared library (CuPy's sort, scan and random generators have some): the
 * calls that hipcc's start-up code makes, and launches by the address of a host function. */
#define _GNU_SOURCE
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    unsigned x, y, z;
} Dim3;

typedef struct {
    uint32_t magic, version;
    const char *binary;
    void *unused;
} Wrapper;

typedef struct FatBinary {
    const char *binary;
    void *modules[MAX_DEVICES]; /* loaded when a device first needs it */
} FatBinary;

typedef struct Kernel {
    const void *host;
    const char *name;
    FatBinary *source;
    void *functions[MAX_DEVICES];
    struct Kernel *next;
} Kernel;

Error hipModuleLoadData(void **module, const void *image);
Error hipModuleGetFunction(void **function, void *module, const char *name);
Error hipModuleLaunchKernel(void *function, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, unsigned shared_bytes, void *stream, void **arguments,
                            void **extra);
Error hipFuncGetAttribute(int *value, int attribute, const void *function);

enum { BUCKETS = 4096 };
static Kernel *kernels[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static Kernel **bucket(const void *host) { return &kernels[((uintptr_t)host >> 4) % BUCKETS]; }

EXPORT FatBinary *__hipRegisterFatBinary(const Wrapper *wrapper) {
    FatBinary *made = calloc(1, sizeof *made);
    if (made) made->binary = wrapper->binary;
    return made;
}

EXPORT void __hipUnregisterFatBinary(FatBinary *source) {
    (void)source; /* at the end of the process; the kernels' table still points to it */
}

EXPORT void __hipRegisterFunction(FatBinary *source, const void *host, char *device_name,
                                  const char *name, unsigned limit, void *tid, void *bid,
                                  void *block, void *grid, int *size) {
    (void)device_name, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)size;
    Kernel *made = calloc(1, sizeof *made);
    if (!made || !source) return; /* a launch then says that the function is not registered */
    *made = (Kernel){.host = host, .name = name, .source = source};
    pthread_mutex_lock(&lock);
    made->next = *bucket(host);
    *bucket(host) = made;
    pthread_mutex_unlock(&lock);
}

EXPORT void __hipRegisterVar(FatBinary *source, void *variable, char *host_name, char *device_name,
                             int external, size_t size, int constant, int global) {
    /* Host access to such variables (hipMemcpyToSymbol) is not there, so nothing needs their names.
     */
    (void)source, (void)variable, (void)host_name, (void)device_name;
    (void)external, (void)size, (void)constant, (void)global;
}

static _Thread_local struct {
    Dim3 grid, block;
    size_t shared_bytes;
    void *stream;
} configured;

EXPORT Error __hipPushCallConfiguration(Dim3 grid, Dim3 block, size_t shared_bytes, void *stream) {
    configured.grid = grid;
    configured.block = block;
    configured.shared_bytes = shared_bytes;
    configured.stream = stream;
    return SUCCESS;
}

EXPORT Error __hipPopCallConfiguration(Dim3 *grid, Dim3 *block, size_t *shared_bytes,
                                       void **stream) {
    *grid = configured.grid;
    *block = configured.block;
    *shared_bytes = configured.shared_bytes;
    *stream = configured.stream;
    return SUCCESS;
}

/* The function of a kernel on the current device, loaded at its first use there. */
static Error find_function(const void *host, void **function) {
    int device = current_device();
    Error error = check_device(device);
    if (error) return error;
    pthread_mutex_lock(&lock);
    Kernel *kernel = *bucket(host);
    while (kernel && kernel->host != host) kernel = kernel->next;
    pthread_mutex_unlock(&lock);
    if (!kernel) return fail(INVALID_DEVICE_FUNCTION, "%p is not a registered kernel", host);
    void **module = &kernel->source->modules[device];
    if (!*module) error = hipModuleLoadData(module, kernel->source->binary);
    if (!error && !kernel->functions[device])
        error = hipModuleGetFunction(&kernel->functions[device], *module, kernel->name);
    *function = kernel->functions[device];
    return error;
}

EXPORT Error hipLaunchKernel(const void *host, Dim3 grid, Dim3 block, void **arguments,
                             size_t shared_bytes, void *stream) {
    void *function;
    Error error = find_function(host, &function);
    if (!error)
        error = hipModuleLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                      (unsigned)shared_bytes, stream, arguments, NULL);
    return error ? tell_later(error) : SUCCESS; /* callers of <<<...>>> seldom look at it */
}

static int most_threads(void *function) {
    int threads = 0;
    hipFuncGetAttribute(&threads, 0, function);
    return threads;
}

EXPORT Error hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *host,
                                               size_t shared_bytes, int limit) {
    void *function;
    (void)shared_bytes;
    Error error = find_function(host, &function);
    if (error) return error;
    int threads = most_threads(function);
    *block = limit > 0 && limit < threads ? limit : threads;
    *grid = COMPUTE_UNITS;
    return SUCCESS;
}

EXPORT Error hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host,
                                                          int threads, size_t shared_bytes) {
    void *function;
    int lds = 0;
    Error error = find_function(host, &function);
    if (error) return error;
    hipFuncGetAttribute(&lds, 1, function);
    size_t lds_each = (size_t)lds + shared_bytes;
    int by_threads = threads > 0 ? 2048 / threads : 0;
    *blocks = lds_each && LDS_BYTES / lds_each < (size_t)by_threads ? (int)(LDS_BYTES / lds_each)
                                                                    : by_threads;
    return SUCCESS;
}

/* Modules, functions and launches: checked here, executed by Python. */
#define _GNU_SOURCE
#include "runtime.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t id;
    int device;
} Module;

typedef struct {
    FunctionInfo info;
    int device;
    char name[]; /* as the code object has it */
} Function;

/* 0: launches are checked and then do nothing, for those who measure the host's share of a call. */
EXPORT int rocke_execute = 1;

static Error load(void **module, const void *image) {
    Error error = check_device(current_device());
    if (error) return error;
    const Callbacks *callbacks = python();
    if (!callbacks) return UNKNOWN;
    Module *made = malloc(sizeof *made);
    if (!made) return fail(OUT_OF_MEMORY, "no memory for a module");
    *made = (Module){.device = current_device()};
    error = settle(callbacks->load_module(image, &made->id));
    if (error) {
        free(made);
        return error;
    }
    *module = made;
    return SUCCESS;
}

EXPORT Error hipModuleLoadData(void **module, const void *image) {
    return image ? load(module, image)
                 : fail(INVALID_VALUE, "hipModuleLoadData: the image is null");
}

EXPORT Error hipModuleLoadDataEx(void **module, const void *image, unsigned count, void *options,
                                 void **values) {
    (void)count, (void)options, (void)values;
    return hipModuleLoadData(module, image);
}

EXPORT Error hipModuleLoad(void **module, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return fail(FILE_NOT_FOUND, "hipModuleLoad: %s cannot be read", path);
    Error error = SUCCESS;
    long size = -1;
    if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    rewind(file);
    /* Zeros behind the end: CuPy's cache files lack the last byte of the code object, a zero. */
    char *image = size > 0 ? calloc(1, (size_t)size + 16) : NULL;
    if (!image || fread(image, 1, (size_t)size, file) != (size_t)size)
        error = fail(FILE_NOT_FOUND, "hipModuleLoad: %s cannot be read", path);
    if (!error) error = load(module, image);
    free(image);
    fclose(file);
    return error;
}

EXPORT Error hipModuleUnload(Module *module) {
    const Callbacks *callbacks = python();
    if (!module) return fail(INVALID_HANDLE, "hipModuleUnload: the module is null");
    /* At the end of the process Python may be gone; then there is nothing to unload from. */
    Error error = callbacks ? settle(callbacks->unload_module(module->id)) : SUCCESS;
    free(module);
    return error;
}

EXPORT Error hipModuleGetFunction(Function **function, Module *module, const char *name) {
    const Callbacks *callbacks = python();
    if (!callbacks) return UNKNOWN;
    Function *made = malloc(sizeof *made + strlen(name) + 1);
    if (!made) return fail(OUT_OF_MEMORY, "no memory for a function");
    made->info = (FunctionInfo){0};
    Error error = settle(callbacks->find_function(module->id, name, &made->info));
    if (error) {
        free(made);
        return error;
    }
    made->device = module->device;
    strcpy(made->name, name);
    *function = made; /* lives as long as the process: HIP has no call that ends it */
    return SUCCESS;
}

EXPORT Error hipModuleGetGlobal(void **address, size_t *size, Module *module, const char *name) {
    const Callbacks *callbacks = python();
    if (!callbacks) return UNKNOWN;
    *address = NULL;
    *size = 0;
    Error error = settle(callbacks->find_global(module->id, name, address, size));
    return error || !*size ? error : adopt_variable(*address, *size, module->device);
}

/* hipFunction_attribute */
EXPORT Error hipFuncGetAttribute(int *value, int attribute, const Function *function) {
    const FunctionInfo *info = &function->info;
    switch (attribute) {
        case 0: *value = (int)info->max_threads; return SUCCESS;
        case 1: *value = (int)info->static_lds; return SUCCESS;
        case 2: *value = 0; return SUCCESS;
        case 3: *value = (int)info->scratch_bytes; return SUCCESS;
        case 4: *value = (int)info->vector_registers; return SUCCESS;
        case 5:
        case 6: *value = 95; return SUCCESS;
        case 7: *value = 0; return SUCCESS;
        case 8: *value = LDS_BYTES - (int)info->static_lds; return SUCCESS;
        case 9: *value = 0; return SUCCESS;
        default: return fail(INVALID_VALUE, "function attribute %d must be from 0 to 9", attribute);
    }
}

/* The checks of the real runtime, in its order and with its codes. */
static Error check_launch(const Function *function, const LaunchRequest *launch) {
    const char *name = function->name;
    const uint32_t *grid = launch->grid, *block = launch->block;
    for (int i = 0; i < 3; i++) {
        if (!grid[i] || !block[i])
            return fail(INVALID_CONFIGURATION,
                        "launch of %s: grid and block must be at least 1, "
                        "dimension %d is (%u, %u)",
                        name, i, grid[i], block[i]);
        if ((uint64_t)grid[i] * block[i] > UINT32_MAX)
            return fail(INVALID_CONFIGURATION,
                        "launch of %s: grid * block must be below 2**32 in each "
                        "dimension, dimension %d has %u * %u",
                        name, i, grid[i], block[i]);
    }
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (threads > MAX_THREADS_PER_BLOCK)
        return fail(INVALID_VALUE,
                    "launch of %s: a block of (%u, %u, %u) has %llu threads, more than "
                    "%d",
                    name, block[0], block[1], block[2], (unsigned long long)threads,
                    MAX_THREADS_PER_BLOCK);
    if (threads > function->info.max_threads)
        return fail(LAUNCH_FAILURE,
                    "launch of %s: %llu threads a block, but it was compiled for at "
                    "most %u (its launch bounds)",
                    name, (unsigned long long)threads, function->info.max_threads);
    if ((uint64_t)function->info.static_lds + launch->shared_bytes > LDS_BYTES)
        return fail(INVALID_VALUE,
                    "launch of %s: %u bytes of static and %u of dynamic shared memory "
                    "exceed the %d of a compute unit",
                    name, function->info.static_lds, launch->shared_bytes, LDS_BYTES);
    return SUCCESS;
}

/* `extra` of hipModuleLaunchKernel: pairs of key and value up to key 3. */
static Error unpack_extra(void **extra, LaunchRequest *launch) {
    for (; extra && (uintptr_t)extra[0] != 3; extra += 2) {
        if ((uintptr_t)extra[0] == 1)
            launch->packed = extra[1];
        else if ((uintptr_t)extra[0] == 2)
            launch->packed_bytes = *(size_t *)extra[1];
        else
            return fail(INVALID_VALUE, "key %p in the extra launch options is not known", extra[0]);
    }
    return SUCCESS;
}

EXPORT Error hipModuleLaunchKernel(Function *function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, void *stream,
                                   void **arguments, void **extra) {
    if (!function) return fail(INVALID_HANDLE, "launch of a function that is null");
    int device;
    Error error = check_stream(stream, &device);
    if (error) return error;
    if (device != current_device() || function->device != device)
        return fail(INVALID_HANDLE,
                    "launch of %s: loaded on device %d, stream of device %d, current "
                    "device %d; they must be the same",
                    function->name, function->device, device, current_device());
    LaunchRequest launch = {
        .module = function->info.module,
        .kernel = function->info.kernel,
        .grid = {grid_x, grid_y, grid_z},
        .block = {block_x, block_y, block_z},
        .shared_bytes = shared_bytes,
        .device = device,
        .stack_bytes = stack_bytes_of(device),
        .arguments = arguments,
    };
    error = check_launch(function, &launch);
    if (!error && !arguments) error = unpack_extra(extra, &launch);
    if (error || !rocke_execute) return error;
    const Callbacks *callbacks = python();
    if (!callbacks) return UNKNOWN;
    return settle(callbacks->launch(&launch));
}

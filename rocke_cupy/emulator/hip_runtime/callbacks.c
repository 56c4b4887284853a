/* The way into Python, found at the first call that needs it: any process with CuPy in it has one.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static Callbacks registered;
static atomic_int is_registered;
static atomic_int is_over; /* Python is on its way out and must not be called any more */

/* Called by `rocke_cupy.emulator.device` while it is imported. */
EXPORT void rocke_register(const Callbacks *callbacks) {
    registered = *callbacks;
    atomic_store(&is_registered, 1);
}

EXPORT void rocke_unregister(void) { atomic_store(&is_over, 1); }

/* Import the Python half. It calls rocke_register; what goes wrong it says on standard error. */
static void import_python_half(void) {
    int (*is_initialized)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "Py_IsInitialized");
    int (*ensure)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "PyGILState_Release");
    void *(*import)(const char *) =
        (void *(*)(const char *))dlsym(RTLD_DEFAULT, "PyImport_ImportModule");
    void (*print_error)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "PyErr_Print");
    if (!is_initialized || !ensure || !release || !import || !print_error || !is_initialized())
        return;
    int state = ensure();
    if (!import("rocke_cupy.emulator.device")) print_error();
    release(state);
}

const Callbacks *python(void) {
    if (atomic_load(&is_over)) {
        fail(UNKNOWN, "the process is about to end; nothing is executed any more");
        return NULL;
    }
    if (!atomic_load(&is_registered)) import_python_half();
    if (atomic_load(&is_registered)) return &registered;
    fail(UNKNOWN,
         "the virtual device executes kernels in Python: rocke_cupy.emulator.device could not "
         "be imported in this process");
    return NULL;
}

/* For hipBLAS and hipRAND, whose own errors are bare numbers: the reason goes to standard error. */
Error ask_python(const char *caller, Request kind, const void *request) {
    const Callbacks *callbacks = python();
    Error error = UNKNOWN;
    if (callbacks && kind == MATRIX_PRODUCT) error = callbacks->matrix_product(request);
    if (callbacks && kind == RANDOM_SEED) error = callbacks->random_seed(request);
    if (callbacks && kind == RANDOM_DRAW) error = callbacks->random_draw(request);
    if (callbacks && error) fail_with_message(error);
    if (error) fprintf(stderr, "rocke_cupy: %s: %s\n", caller, hipGetErrorString(error));
    return error;
}

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

/* Called by `rocke_cupy.emulator.device.callbacks` while it is imported. */
EXPORT void rocke_register(const Callbacks *callbacks) {
    registered = *callbacks;
    atomic_store(&is_registered, 1);
}

EXPORT void rocke_unregister(void) { atomic_store(&is_over, 1); }

static void *of_python(const char *name) { return dlsym(RTLD_DEFAULT, name); }

/* Import the Python half, which calls rocke_register. What goes wrong is shown on standard error.
 */
static void import_python_half(void) {
    int (*is_initialized)(void) = (int (*)(void))of_python("Py_IsInitialized");
    int (*ensure)(void) = (int (*)(void))of_python("PyGILState_Ensure");
    void (*release)(int) = (void (*)(int))of_python("PyGILState_Release");
    void *(*import)(const char *) = (void *(*)(const char *))of_python("PyImport_ImportModule");
    int (*matches)(void *) = (int (*)(void *))of_python("PyErr_ExceptionMatches");
    void **interrupt = of_python("PyExc_KeyboardInterrupt");
    void (*clear)(void) = (void (*)(void))of_python("PyErr_Clear");
    void (*print)(void) = (void (*)(void))of_python("PyErr_Print");
    if (!is_initialized || !ensure || !release || !import || !matches || !interrupt || !clear)
        return;
    if (!print || !is_initialized()) return;
    int state = ensure();
    if (!import("rocke_cupy.emulator.device.callbacks")) {
        if (matches(*interrupt)) {
            clear();
            settle(INTERRUPTED);
        } else {
            print();
        }
    }
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

Error settle(int status) {
    if (status != INTERRUPTED) return status ? fail_with_message((Error)status) : SUCCESS;
    void (*interrupt)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "PyErr_SetInterrupt");
    if (interrupt) interrupt();
    return SUCCESS;
}

/* For hipBLAS and hipRAND, whose own errors are bare numbers: the reason goes to standard error. */
Error ask_python(const char *caller, Request kind, const void *request) {
    const Callbacks *callbacks = python();
    Error error = UNKNOWN;
    if (callbacks && kind == MATRIX_PRODUCT) error = settle(callbacks->matrix_product(request));
    if (callbacks && kind == RANDOM_SEED) error = settle(callbacks->random_seed(request));
    if (callbacks && kind == RANDOM_DRAW) error = settle(callbacks->random_draw(request));
    if (error) fprintf(stderr, "rocke_cupy: %s: %s\n", caller, hipGetErrorString(error));
    return error;
}

/* The way into Python, found at the first call that needs it: any process with CuPy in it has one.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

static Callbacks registered;
static atomic_int is_registered;

/* Called by `rocke_cupy.emulator.device` while it is imported. */
EXPORT void rocke_register(const Callbacks *callbacks) {
    registered = *callbacks;
    atomic_store(&is_registered, 1);
}

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
    if (!atomic_load(&is_registered)) import_python_half();
    if (atomic_load(&is_registered)) return &registered;
    fail(UNKNOWN,
         "the virtual device executes kernels in Python: rocke_cupy.emulator.device could not "
         "be imported in this process");
    return NULL;
}

/* For the stand-ins of hipBLAS and hipRAND, which have no way of their own. */
EXPORT Error rocke_matrix_product(const MatrixProduct *product) {
    const Callbacks *callbacks = python();
    if (!callbacks) return UNKNOWN;
    Error error = callbacks->matrix_product(product);
    return error ? fail_with_message(error) : SUCCESS;
}

EXPORT Error rocke_random_seed(const RandomSeed *seed) {
    const Callbacks *callbacks = python();
    if (!callbacks) return UNKNOWN;
    Error error = callbacks->random_seed(seed);
    return error ? fail_with_message(error) : SUCCESS;
}

EXPORT Error rocke_random_draw(const RandomDraw *draw) {
    const Callbacks *callbacks = python();
    if (!callbacks) return UNKNOWN;
    Error error = callbacks->random_draw(draw);
    return error ? fail_with_message(error) : SUCCESS;
}

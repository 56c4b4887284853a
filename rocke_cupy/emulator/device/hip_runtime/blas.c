/* hipBLAS: handles, and the matrix products. NumPy computes them, on the host. */
#include "runtime.h"

#include <stdlib.h>

/* hipblasStatus_t and hipDataType, of hipBLAS 3. */
enum { OK = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 2, EXECUTION_FAILED = 5 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, C_32F = 4, C_64F = 5 };
/* hipblasOperation_t */
enum { OPERATION_NONE = 111 };
/* hipblasComputeType_t */
enum { COMPUTE_16F = 0, COMPUTE_16F_PEDANTIC = 1, COMPUTE_64F = 7, COMPUTE_64F_PEDANTIC = 8 };

typedef struct {
    void *stream;
    int pointer_mode; /* kept for the caller: a device pointer is readable as it is */
} Handle;

EXPORT int hipblasCreate(Handle **handle) {
    *handle = calloc(1, sizeof **handle);
    return *handle ? OK : ALLOC_FAILED;
}

EXPORT int hipblasDestroy(Handle *handle) {
    free(handle);
    return OK;
}

EXPORT int hipblasSetStream(Handle *handle, void *stream) {
    if (!handle) return NOT_INITIALIZED;
    handle->stream = stream;
    return OK;
}

EXPORT int hipblasGetStream(Handle *handle, void **stream) {
    if (!handle) return NOT_INITIALIZED;
    *stream = handle->stream;
    return OK;
}

EXPORT int hipblasSetPointerMode(Handle *handle, int mode) {
    if (!handle) return NOT_INITIALIZED;
    handle->pointer_mode = mode;
    return OK;
}

EXPORT int hipblasGetPointerMode(Handle *handle, int *mode) {
    if (!handle) return NOT_INITIALIZED;
    *mode = handle->pointer_mode;
    return OK;
}

static int multiply(const char *caller, Handle *handle, MatrixProduct product) {
    if (!handle) return NOT_INITIALIZED;
    product.trans_a -= OPERATION_NONE;
    product.trans_b -= OPERATION_NONE;
    return ask_python(caller, MATRIX_PRODUCT, &product) ? EXECUTION_FAILED : OK;
}

/* Type of alpha and beta: that of the computation, complex for complex matrices. */
static int scalar_type(int compute, int matrix) {
    if (matrix == C_32F || matrix == C_64F) return matrix;
    if (compute == COMPUTE_16F || compute == COMPUTE_16F_PEDANTIC) return R_16F;
    return compute == COMPUTE_64F || compute == COMPUTE_64F_PEDANTIC ? R_64F : R_32F;
}

/* The parameters that all products have, under the names they have in all of them; then what one has beside them. */
#define PRODUCT(...)                                                                               \
    (MatrixProduct) {                                                                              \
        .trans_a = trans_a, .trans_b = trans_b, .m = m, .n = n, .k = k, .alpha = alpha,            \
        .beta = beta, .a = a, .b = b, .c = c, .lda = lda, .ldb = ldb, .ldc = ldc, __VA_ARGS__      \
    }
#define STRIDED .batch = batch, .stride_a = stride_a, .stride_b = stride_b, .stride_c = stride_c
#define ALL_OF(type) .type_a = type, .type_b = type, .type_c = type, .type_scalar = type
#define EACH_ITS_TYPE                                                                              \
    .type_a = type_a, .type_b = type_b, .type_c = type_c,                                          \
    .type_scalar = scalar_type(compute, type_c)

EXPORT int hipblasGemmEx(Handle *handle, int trans_a, int trans_b, int m, int n, int k,
                         const void *alpha, const void *a, int type_a, int lda, const void *b,
                         int type_b, int ldb, const void *beta, void *c, int type_c, int ldc,
                         int compute, int algorithm) {
    (void)algorithm;
    return multiply("hipblasGemmEx", handle, PRODUCT(.batch = 1, EACH_ITS_TYPE));
}

EXPORT int hipblasGemmStridedBatchedEx(Handle *handle, int trans_a, int trans_b, int m, int n,
                                       int k, const void *alpha, const void *a, int type_a, int lda,
                                       long long stride_a, const void *b, int type_b, int ldb,
                                       long long stride_b, const void *beta, void *c, int type_c,
                                       int ldc, long long stride_c, int batch, int compute,
                                       int algorithm) {
    (void)algorithm;
    return multiply("hipblasGemmStridedBatchedEx", handle, PRODUCT(STRIDED, EACH_ITS_TYPE));
}

/* The products of one type each: plain, batched by pointers, batched by strides. */
#define PRODUCTS(letter, type)                                                                     \
    EXPORT int hipblas##letter##gemm(Handle *handle, int trans_a, int trans_b, int m, int n,       \
                                     int k, const void *alpha, const void *a, int lda,             \
                                     const void *b, int ldb, const void *beta, void *c, int ldc) { \
        return multiply("hipblas" #letter "gemm", handle, PRODUCT(.batch = 1, ALL_OF(type)));      \
    }                                                                                              \
    EXPORT int hipblas##letter##gemmBatched(Handle *handle, int trans_a, int trans_b, int m,       \
                                            int n, int k, const void *alpha, const void *a,        \
                                            int lda, const void *b, int ldb, const void *beta,     \
                                            void *c, int ldc, int batch) {                         \
        return multiply("hipblas" #letter "gemmBatched", handle,                                   \
                        PRODUCT(.batch = batch, .is_pointer_array = 1, ALL_OF(type)));             \
    }                                                                                              \
    EXPORT int hipblas##letter##gemmStridedBatched(                                                \
        Handle *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha,          \
        const void *a, int lda, long long stride_a, const void *b, int ldb, long long stride_b,    \
        const void *beta, void *c, int ldc, long long stride_c, int batch) {                       \
        return multiply("hipblas" #letter "gemmStridedBatched", handle,                            \
                        PRODUCT(STRIDED, ALL_OF(type)));                                           \
    }

PRODUCTS(S, R_32F)
PRODUCTS(D, R_64F)
PRODUCTS(C, C_32F)
PRODUCTS(Z, C_64F)

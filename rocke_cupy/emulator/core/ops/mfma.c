/* Matrix instructions. Lane layouts (facts checked against AMD's matrix instruction calculator and the recorded
   vectors), for a square of `size` rows and `groups` = 64 / size lane groups, each holding `k_each` values of k:
     A: lane l, element e is A[l % size][k_each * (l / size) + e], B likewise B[...][l % size]
     C, D: register r is C[4 * groups * (r / 4) + 4 * (l / size) + r % 4][l % size]
   16-bit denormals are kept whatever the mode says. How the hardware rounds inside a sum is not published; here C
   and all products are added in double and rounded once, as in the recording of the vectors. */
#include "../numeric.h"
#include "../machine_tables.h"

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512d Vec;
enum { VEC = 8 };
static inline Vec vec_load(const double *p) { return _mm512_loadu_pd(p); }
static inline Vec vec_widen(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
static inline void vec_narrow(float *p, Vec v) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(v)); }
static inline Vec vec_all(double x) { return _mm512_set1_pd(x); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
typedef __m256d Vec;
enum { VEC = 4 };
static inline Vec vec_load(const double *p) { return _mm256_loadu_pd(p); }
static inline Vec vec_widen(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
static inline void vec_narrow(float *p, Vec v) { _mm_storeu_ps(p, _mm256_cvtpd_ps(v)); }
static inline Vec vec_all(double x) { return _mm256_set1_pd(x); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_pd(a, b, c); }
#else
typedef double Vec;
enum { VEC = 1 };
static inline Vec vec_load(const double *p) { return *p; }
static inline Vec vec_widen(const float *p) { return *p; }
static inline void vec_narrow(float *p, Vec v) { *p = (float)v; }
static inline Vec vec_all(double x) { return x; }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return a * b + c; } /* the product is exact */
#endif

typedef double Elements[8][LANES]; /* [element of a lane][lane] */

static void source_matrix(Wave *w, const Operand *o, int bf16, Elements out) {
    for (int r = 0; r < o->width; r++) {
        const u32 *v = w->v[o->index + r];
        for (int i = 0; i < LANES; i++) {
            out[2 * r][i] = bf16 ? as_f32(v[i] << 16) : f16_to_f32(v[i] & 0xffff);
            out[2 * r + 1][i] = bf16 ? as_f32(v[i] & 0xffff0000u) : f16_to_f32(v[i] >> 16);
        }
    }
}

/* Two rows of D at a time, a strip of columns in vector registers over the whole of k. */
enum { STRIP = 4 };
static inline __attribute__((always_inline)) void multiply_rows(const Elements a, const Elements b, const float *const c[2],
                                                                float *const d[2], const int rows[2], int size,
                                                                int k_each) {
    for (int column = 0; column < size; column += STRIP * VEC) {
        Vec sum[2][STRIP];
        for (int half = 0; half < 2; half++)
            for (int n = 0; n < STRIP; n++) sum[half][n] = vec_widen(c[half] + column + VEC * n);
        for (int block = 0; block < LANES; block += size)
            for (int e = 0; e < k_each; e++) {
                Vec a0 = vec_all(a[e][block + rows[0]]), a1 = vec_all(a[e][block + rows[1]]);
                for (int n = 0; n < STRIP; n++) {
                    Vec bn = vec_load(&b[e][block + column + VEC * n]);
                    sum[0][n] = vec_fma(a0, bn, sum[0][n]);
                    sum[1][n] = vec_fma(a1, bn, sum[1][n]);
                }
            }
        for (int half = 0; half < 2; half++)
            for (int n = 0; n < STRIP; n++) vec_narrow(d[half] + column + VEC * n, sum[half][n]);
    }
}

static inline __attribute__((always_inline)) void multiply(Wave *w, const Instruction *in, int bf16, int size, int k_each) {
    Elements a, b;
    float constant[LANES];
    const Operand *c = &in->src[2];
    int groups = LANES / size;
    source_matrix(w, &in->src[0], bf16, a);
    source_matrix(w, &in->src[1], bf16, b);
    for (int i = 0; c->kind != OPERAND_VGPR && i < LANES; i++) constant[i] = as_f32(scalar32(w, c));
    for (int r = 0; r < size * size / LANES; r++)
        for (int group = 0; group < groups; group += 2) {
            float *out = (float *)(void *)w->v[in->dst[0].index + r];
            const float *old = c->kind == OPERAND_VGPR ? (const float *)(const void *)w->v[c->index + r] : constant;
            int row = 4 * groups * (r / 4) + 4 * group + r % 4, at = size * group;
            multiply_rows(a, b, (const float *const[2]){old + at, old + at + size},
                          (float *const[2]){out + at, out + at + size}, (const int[2]){row, row + 4}, size, k_each);
        }
}

/* The result may lie on the accumulator, row on row, but not across it. */
static int results_clash(const Instruction *in) {
    const Operand *d = &in->dst[0], *c = &in->src[2];
    return c->kind == OPERAND_VGPR && d->index != c->index && d->index < c->index + c->width && c->index < d->index + d->width;
}

#define MFMA(name, size, k_each, bf16)                                                                                \
    static void name(Wave *w, const Instruction *in) {                                                                \
        if (results_clash(in)) {                                                                                      \
            fail(w, in, FAULT_UNKNOWN, -1, "a matrix result that overlaps its accumulator in part");                  \
            return;                                                                                                   \
        }                                                                                                             \
        set_float_mode(0xf0);                                                                                         \
        multiply(w, in, bf16, size, k_each);                                                                          \
        set_float_mode(w->mode);                                                                                      \
    }
MFMA(v_mfma_f32_32x32x16_bf16, 32, 8, 1)
MFMA(v_mfma_f32_32x32x16_f16, 32, 8, 0)
MFMA(v_mfma_f32_16x16x32_bf16, 16, 8, 1)
MFMA(v_mfma_f32_16x16x32_f16, 16, 8, 0)
MFMA(v_mfma_f32_32x32x8_bf16, 32, 4, 1)
MFMA(v_mfma_f32_32x32x8_f16, 32, 4, 0)
MFMA(v_mfma_f32_16x16x16_bf16, 16, 4, 1)
MFMA(v_mfma_f32_16x16x16_f16, 16, 4, 0)

#define MFMA_ROW(name, c_form, ab_form) {#name, c_form ":" ab_form "," ab_form "," c_form, FORMAT_PLAIN, UNIT_MFMA, name, NULL},
const Op mfma_ops[] = {
    MFMA_ROW(v_mfma_f32_32x32x16_bf16, "b512", "b128")
    MFMA_ROW(v_mfma_f32_32x32x16_f16, "b512", "b128")
    MFMA_ROW(v_mfma_f32_16x16x32_bf16, "b128", "b128")
    MFMA_ROW(v_mfma_f32_16x16x32_f16, "b128", "b128")
    {"v_mfma_f32_32x32x8_bf16", "b512:b64,b64,b512", FORMAT_PLAIN, UNIT_MFMA, v_mfma_f32_32x32x8_bf16, NULL},
    {"v_mfma_f32_32x32x8_f16", "b512:b64,b64,b512", FORMAT_PLAIN, UNIT_MFMA, v_mfma_f32_32x32x8_f16, NULL},
    {"v_mfma_f32_16x16x16_bf16", "b128:b64,b64,b128", FORMAT_PLAIN, UNIT_MFMA, v_mfma_f32_16x16x16_bf16, NULL},
    {"v_mfma_f32_16x16x16_f16", "b128:b64,b64,b128", FORMAT_PLAIN, UNIT_MFMA, v_mfma_f32_16x16x16_f16, NULL},
    {0}};

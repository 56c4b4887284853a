/* Matrix instructions. Lane layouts (facts checked against AMD's matrix instruction calculator and the recorded
   vectors), for a square of `size` rows and `groups` = 64 / size lane groups, each holding `k_each` values of k:
     A: lane l, element e is A[l % size][k_each * (l / size) + e], B likewise B[...][l % size]
     C, D: register r is C[4 * groups * (r / 4) + 4 * (l / size) + r % 4][l % size]
   16-bit denormals are kept whatever the mode says; sums are fp32, in the order of k. */
#include "../numeric.h"
#include "../machine_tables.h"

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 Vec;
enum { VEC = 16 };
static inline Vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
static inline void vec_store(float *p, Vec v) { _mm512_storeu_ps(p, v); }
static inline Vec vec_all(float x) { return _mm512_set1_ps(x); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
typedef __m256 Vec;
enum { VEC = 8 };
static inline Vec vec_load(const float *p) { return _mm256_loadu_ps(p); }
static inline void vec_store(float *p, Vec v) { _mm256_storeu_ps(p, v); }
static inline Vec vec_all(float x) { return _mm256_set1_ps(x); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#else
typedef float Vec;
enum { VEC = 1 };
static inline Vec vec_load(const float *p) { return *p; }
static inline void vec_store(float *p, Vec v) { *p = v; }
static inline Vec vec_all(float x) { return x; }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return fmaf(a, b, c); }
#endif

typedef float Elements[16][LANES]; /* [element of a lane][lane] */

static void widen_bf16(const u32 (*v)[LANES], int registers, Elements out) {
    for (int r = 0; r < registers; r++)
        for (int i = 0; i < LANES; i++) {
            out[2 * r][i] = as_f32(v[r][i] << 16);
            out[2 * r + 1][i] = as_f32(v[r][i] & 0xffff0000u);
        }
}
static void widen_f16(const u32 (*v)[LANES], int registers, Elements out) {
    for (int r = 0; r < registers; r++)
        for (int i = 0; i < LANES; i++) {
            out[2 * r][i] = f16_to_f32(v[r][i] & 0xffff);
            out[2 * r + 1][i] = f16_to_f32(v[r][i] >> 16);
        }
}

static void source_matrix(Wave *w, const Operand *o, int bf16, Elements out) {
    if (bf16) widen_bf16((const u32(*)[LANES])(w->v + o->index), o->width, out);
    else widen_f16((const u32(*)[LANES])(w->v + o->index), o->width, out);
}

/* One row of D at a time for each lane group: `size` columns stay in vector registers over the whole of k. */
static inline __attribute__((always_inline)) void multiply(const Elements a, const Elements b, float (*c)[LANES], int size, int k_each,
                                                           int registers) {
    int groups = LANES / size, vectors = size / VEC;
    for (int r = 0; r < registers; r++)
        for (int group = 0; group < groups; group += 2) {
            int row0 = 4 * groups * (r / 4) + 4 * group + r % 4, row1 = row0 + 4;
            Vec sum0[32 / VEC], sum1[32 / VEC];
            for (int n = 0; n < vectors; n++) {
                sum0[n] = vec_load(&c[r][size * group + VEC * n]);
                sum1[n] = vec_load(&c[r][size * (group + 1) + VEC * n]);
            }
            for (int block = 0; block < groups; block++)
                for (int e = 0; e < k_each; e++) {
                    Vec a0 = vec_all(a[e][size * block + row0]), a1 = vec_all(a[e][size * block + row1]);
                    for (int n = 0; n < vectors; n++) {
                        Vec bn = vec_load(&b[e][size * block + VEC * n]);
                        sum0[n] = vec_fma(a0, bn, sum0[n]);
                        sum1[n] = vec_fma(a1, bn, sum1[n]);
                    }
                }
            for (int n = 0; n < vectors; n++) {
                vec_store(&c[r][size * group + VEC * n], sum0[n]);
                vec_store(&c[r][size * (group + 1) + VEC * n], sum1[n]);
            }
        }
}

static void accumulator(Wave *w, const Operand *o, int registers, float (*c)[LANES]) {
    if (o->kind == OPERAND_VGPR) {
        memcpy(c, w->v + o->index, (size_t)registers * sizeof *c);
        return;
    }
    float value = as_f32(scalar32(w, o));
    for (int r = 0; r < registers; r++)
        for (int i = 0; i < LANES; i++) c[r][i] = value;
}

#define MFMA(name, size, k_each, bf16)                                                                                \
    static void name(Wave *w, const Instruction *in) {                                                                \
        enum { REGISTERS = (size) * (size) / LANES };                                                                 \
        Elements a, b;                                                                                                \
        float c[REGISTERS][LANES] __attribute__((aligned(64)));                                                       \
        set_float_mode(0xf0);                                                                                         \
        source_matrix(w, &in->src[0], bf16, a);                                                                       \
        source_matrix(w, &in->src[1], bf16, b);                                                                       \
        accumulator(w, &in->src[2], REGISTERS, c);                                                                    \
        multiply((const float(*)[LANES])a, (const float(*)[LANES])b, c, size, k_each, REGISTERS);                     \
        memcpy(w->v + in->dst[0].index, c, sizeof c);                                                                 \
        set_float_mode(w->mode);                                                                                      \
    }
MFMA(v_mfma_f32_32x32x16_bf16, 32, 8, 1)
MFMA(v_mfma_f32_32x32x16_f16, 32, 8, 0)
MFMA(v_mfma_f32_16x16x32_bf16, 16, 8, 1)
MFMA(v_mfma_f32_16x16x32_f16, 16, 8, 0)
MFMA(v_mfma_f32_32x32x8_bf16_1k, 32, 4, 1)
MFMA(v_mfma_f32_32x32x8_f16, 32, 4, 0)
MFMA(v_mfma_f32_16x16x16_bf16_1k, 16, 4, 1)
MFMA(v_mfma_f32_16x16x16_f16, 16, 4, 0)

#define MFMA_ROW(name, c_form, ab_form) {#name, c_form ":" ab_form "," ab_form "," c_form, FORMAT_PLAIN, UNIT_MFMA, name, NULL},
const Op mfma_ops[] = {
    MFMA_ROW(v_mfma_f32_32x32x16_bf16, "b512", "b128")
    MFMA_ROW(v_mfma_f32_32x32x16_f16, "b512", "b128")
    MFMA_ROW(v_mfma_f32_16x16x32_bf16, "b128", "b128")
    MFMA_ROW(v_mfma_f32_16x16x32_f16, "b128", "b128")
    {"v_mfma_f32_32x32x8_bf16_1k", "b512:b64,b64,b512", FORMAT_PLAIN, UNIT_MFMA, v_mfma_f32_32x32x8_bf16_1k, NULL},
    {"v_mfma_f32_32x32x8_f16", "b512:b64,b64,b512", FORMAT_PLAIN, UNIT_MFMA, v_mfma_f32_32x32x8_f16, NULL},
    {"v_mfma_f32_16x16x16_bf16_1k", "b128:b64,b64,b128", FORMAT_PLAIN, UNIT_MFMA, v_mfma_f32_16x16x16_bf16_1k, NULL},
    {"v_mfma_f32_16x16x16_f16", "b128:b64,b64,b128", FORMAT_PLAIN, UNIT_MFMA, v_mfma_f32_16x16x16_f16, NULL},
    {0}};

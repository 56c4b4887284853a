/* Products of matrices. Lane layouts (CDNA4 manual 7.1.4, AMD's matrix instruction calculator and the recorded
   vectors), for a square of `size` rows and `groups` = 64 / size lane groups, each holding `k_each` values of k:
     A: lane l, element e is A[l % size][k_each * (l / size) + e], B likewise B[...][l % size]
     C, D: register r is C[4 * groups * (r / 4) + 4 * (l / size) + r % 4][l % size]
   How the hardware rounds inside a sum is not published; here C and all products are added in double and rounded
   once, as in the recording of the vectors. Sums of integers are exact in double. */
#include "matrix.h"
#include "small_floats.h"

/* The low 32 bits of a number of up to 51 bits are the low bits of its sum with this. */
static const double INTEGER_BITS = 0x1.8p52;

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512d Vec;
enum { VEC = 8 };
static inline Vec vec_load(const double *p) { return _mm512_loadu_pd(p); }
static inline Vec vec_widen(const u32 *p) { return _mm512_cvtps_pd(_mm256_loadu_ps((const float *)p)); }
static inline Vec vec_widen_integer(const u32 *p) { return _mm512_cvtepi32_pd(_mm256_loadu_si256((const __m256i *)p)); }
static inline void vec_narrow(u32 *p, Vec v) { _mm256_storeu_ps((float *)p, _mm512_cvtpd_ps(v)); }
static inline void vec_narrow_integer(u32 *p, Vec v) {
    __m512i bits = _mm512_castpd_si512(_mm512_add_pd(v, _mm512_set1_pd(INTEGER_BITS)));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi64_epi32(bits));
}
static inline Vec vec_all(double x) { return _mm512_set1_pd(x); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
typedef __m256d Vec;
enum { VEC = 4 };
static inline Vec vec_load(const double *p) { return _mm256_loadu_pd(p); }
static inline Vec vec_widen(const u32 *p) { return _mm256_cvtps_pd(_mm_loadu_ps((const float *)p)); }
static inline Vec vec_widen_integer(const u32 *p) { return _mm256_cvtepi32_pd(_mm_loadu_si128((const __m128i *)p)); }
static inline void vec_narrow(u32 *p, Vec v) { _mm_storeu_ps((float *)p, _mm256_cvtpd_ps(v)); }
static inline void vec_narrow_integer(u32 *p, Vec v) {
    __m256 bits = _mm256_castpd_ps(_mm256_add_pd(v, _mm256_set1_pd(INTEGER_BITS)));
    _mm_storeu_ps((float *)p, _mm_shuffle_ps(_mm256_castps256_ps128(bits), _mm256_extractf128_ps(bits, 1), 0x88));
}
static inline Vec vec_all(double x) { return _mm256_set1_pd(x); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_pd(a, b, c); }
#else
typedef double Vec;
enum { VEC = 1 };
static inline Vec vec_load(const double *p) { return *p; }
static inline Vec vec_widen(const u32 *p) { return as_f32(*p); }
static inline Vec vec_widen_integer(const u32 *p) { return (i32)*p; }
static inline void vec_narrow(u32 *p, Vec v) { *p = bits_f32((float)v); }
static inline void vec_narrow_integer(u32 *p, Vec v) { *p = (u32)bits_f64(v + INTEGER_BITS); }
static inline Vec vec_all(double x) { return x; }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return fma(a, b, c); }
#endif

/* ---- elements of A and B ---- */

#define WIDEN(name, count, value)                                                                                     \
    void widen_##name(const Wave *w, const Operand *o, Elements out) {                                                \
        for (int r = 0; r < o->width; r++) {                                                                          \
            const u32 *v = w->v[o->index + r];                                                                        \
            for (int k = 0; k < (count); k++)                                                                         \
                for (int i = 0; i < LANES; i++) {                                                                     \
                    u32 x = v[i] >> 32 / (count) * k;                                                                 \
                    out[(count) * r + k][i] = (value);                                                                \
                }                                                                                                     \
        }                                                                                                             \
    }
WIDEN(f16, 2, f16_to_f32(x & 0xffff))
WIDEN(bf16, 2, as_f32(x << 16))
WIDEN(i8, 4, (double)(i8)x)
WIDEN(fp8, 4, fp8_to_f32(x))
WIDEN(bf8, 4, bf8_to_f32(x))

/* Only of fp32 does the mode flush denormals: bit 4 keeps those of sources (CDNA4 manual 7.4). */
void widen_f32(const Wave *w, const Operand *o, Elements out) {
    u32 keep = w->mode >> 4 & 1;
    for (int r = 0; r < o->width; r++)
        for (int i = 0; i < LANES; i++) {
            u32 x = w->v[o->index + r][i];
            out[r][i] = keep || x << 1 >> 24 ? as_f32(x) : 0.0;
        }
}

#define WIDEN_SMALL(name, bits)                                                                                       \
    static void widen_each_##name(u32 (*v)[LANES], Elements out) {                                                    \
        for (int e = 0; e < MOST_ELEMENTS; e++) {                                                                     \
            int word = e * (bits) / 32, shift = e * (bits) % 32;                                                      \
            const u32 *low = v[word], *high = v[shift + (bits) > 32 ? word + 1 : word];                               \
            for (int i = 0; i < LANES; i++) {                                                                         \
                u32 code = (u32)(join(low[i], high[i]) >> shift) & ((1u << (bits)) - 1);                              \
                out[e][i] = name##_to_f32(code);                                                                      \
            }                                                                                                         \
        }                                                                                                             \
    }
WIDEN_SMALL(fp8, 8)
WIDEN_SMALL(bf8, 8)
WIDEN_SMALL(fp6, 6)
WIDEN_SMALL(bf6, 6)
WIDEN_SMALL(fp4, 4)

/* Of 8 bits a lane holds two runs of 16 values of k, half of k apart. Bring its elements where those of fewer bits are,
   so that formats meet and each lane's scale is that of its own elements. */
static void join_runs(Elements each, int size, Elements out) {
    int groups = LANES / size;
    for (int e = 0; e < MOST_ELEMENTS; e++)
        for (int group = 0; group < groups; group++) {
            int k = e / 16 * 16 * groups + 16 * group + e % 16;
            memcpy(&out[k % 32][k / 32 * size], &each[e][group * size], sizeof(double) * (size_t)size);
        }
}

void widen_small(const Wave *w, const Operand *o, u32 format, int size, Elements out) {
    static void (*const widen_each[SMALL_FORMATS])(u32(*)[LANES], Elements) = {
        [FORMAT_FP8] = widen_each_fp8, [FORMAT_BF8] = widen_each_bf8, [FORMAT_FP6] = widen_each_fp6,
        [FORMAT_BF6] = widen_each_bf6, [FORMAT_FP4] = widen_each_fp4};
    Elements each;
    int runs = format == FORMAT_FP8 || format == FORMAT_BF8;
    widen_each[format](w->v + o->index, runs ? each : out);
    if (runs) join_runs(each, size, out);
}

/* ---- products ---- */

/* Two rows of D at a time, a strip of columns in vector registers over the whole of k. */
enum { STRIP = 4 };
static inline __attribute__((always_inline)) void multiply_rows(Elements a, Elements b, const u32 *const c[2],
                                                                u32 *const d[2], const int rows[2], int size,
                                                                int k_each, int integer) {
    for (int column = 0; column < size; column += STRIP * VEC) {
        Vec sum[2][STRIP];
        for (int half = 0; half < 2; half++)
            for (int n = 0; n < STRIP; n++) {
                const u32 *at = c[half] + column + VEC * n;
                sum[half][n] = integer ? vec_widen_integer(at) : vec_widen(at);
            }
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
            for (int n = 0; n < STRIP; n++) {
                u32 *at = d[half] + column + VEC * n;
                if (integer) vec_narrow_integer(at, sum[half][n]);
                else vec_narrow(at, sum[half][n]);
            }
    }
}

static inline __attribute__((always_inline)) void multiply_square(Wave *w, const Operand *d, Accumulator c, Elements a,
                                                                  Elements b, int size, int k_each, int integer) {
    int groups = LANES / size;
    for (int r = 0; r < size * size / LANES; r++)
        for (int group = 0; group < groups; group += 2) {
            u32 *out = w->v[d->index + r];
            const u32 *old = c.rows + c.step * (u32)r;
            int row = 4 * groups * (r / 4) + 4 * group + r % 4, at = size * group;
            multiply_rows(a, b, (const u32 *const[2]){old + at, old + at + size},
                          (u32 *const[2]){out + at, out + at + size}, (const int[2]){row, row + 4}, size, k_each,
                          integer);
        }
}

void multiply(Wave *w, const Operand *d, Accumulator c, Elements a, Elements b, int size, int k_each, int integer) {
    if (size == 32 && integer) multiply_square(w, d, c, a, b, 32, k_each, 1);
    else if (size == 32) multiply_square(w, d, c, a, b, 32, k_each, 0);
    else if (integer) multiply_square(w, d, c, a, b, 16, k_each, 1);
    else multiply_square(w, d, c, a, b, 16, k_each, 0);
}

/* The lane of A and B is block * size + row or column. Of D, a register holds as many groups of four rows as there
   are lanes for, of one block and then of the next. */
void multiply_blocks(Wave *w, const Operand *d, Accumulator c, Elements a, Elements b, int size, int blocks,
                     int k_each, int integer) {
    int blocks_each = size * size < 4 * LANES ? 4 * LANES / (size * size) : 1, groups = LANES / blocks_each / size;
    for (int block = 0; block < blocks; block++)
        for (int row = 0; row < size; row++) {
            int r = row % 4 + 4 * (row / (4 * groups)) + size / groups * (block / blocks_each);
            int first = size * (row / 4 % groups + groups * (block % blocks_each));
            for (int column = 0; column < size; column++) {
                u32 old = c.rows[c.step * (u32)r + (u32)(first + column)];
                double sum = integer ? (double)(i32)old : (double)as_f32(old);
                for (int e = 0; e < k_each; e++) sum += a[e][block * size + row] * b[e][block * size + column];
                w->v[d->index + r][first + column] = integer ? (u32)(i64)sum : bits_f32((float)sum);
            }
        }
}

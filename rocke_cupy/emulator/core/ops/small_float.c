/* Conversions between fp32, fp16, bf16 and the formats of 8, 6 and 4 bits (CDNA4 manual 7.3). */
#include "../lanes.h"
#include "../machine_tables.h"
#include "../small_floats.h"

static inline u64 pair_of_f32(float low, float high) { return join(bits_f32(low), bits_f32(high)); }
static inline u32 pair_of_f16(float low, float high) { return f32_to_f16(low) | f32_to_f16(high) << 16; }
static inline u32 pair_of_bf16(float low, float high) { return f32_to_bf16(low) | f32_to_bf16(high) << 16; }
static inline u32 pair_of_fp8(float low, float high, u32 mode) { return f32_to_fp8(low, mode) | f32_to_fp8(high, mode) << 8; }
static inline u32 pair_of_bf8(float low, float high, u32 mode) { return f32_to_bf8(low, mode) | f32_to_bf8(high, mode) << 8; }
static inline u32 pair_of_fp4(float low, float high) { return f32_to_fp4(low) | f32_to_fp4(high) << 4; }
static inline float low_f16(u32 pair) { return f16_to_f32(pair & 0xffff); }
static inline float high_f16(u32 pair) { return f16_to_f32(pair >> 16); }
static inline float low_bf16(u32 pair) { return as_f32(pair << 16); }
static inline float high_bf16(u32 pair) { return as_f32(pair & 0xffff0000u); }

#include "../define_lanes.h"
#include "small_float.inc"

/* ---- 32 numbers of 6 bits, in six registers of a lane ---- */

enum { NUMBERS = 32, BITS = 6, PACKED = NUMBERS * BITS / 32 };

static u32 code_at(u32 (*v)[LANES], int number, int lane) {
    int word = number * BITS / 32, shift = number * BITS % 32;
    u64 both = join(v[word][lane], shift + BITS > 32 ? v[word + 1][lane] : 0);
    return (u32)(both >> shift) & 63;
}

static void put_code(u32 (*v)[LANES], int number, int lane, u32 code) {
    int word = number * BITS / 32, shift = number * BITS % 32;
    v[word][lane] |= code << shift;
    if (shift + BITS > 32) v[word + 1][lane] |= code >> (32 - shift);
}

static const u32 *scale_row(Wave *w, const Instruction *in, int k, u32 temp[2][LANES]) {
    const u32 *rows[2];
    fetch_rows(w, in, k, temp, rows);
    return rows[0];
}

typedef float ReadFn(const Wave *w, const Instruction *in, int number, int lane);

static float read_f16(const Wave *w, const Instruction *in, int number, int lane) {
    return f16_to_f32(w->v[in->src[0].index + number / 2][lane] >> 16 * (number % 2) & 0xffff);
}
static float read_bf16(const Wave *w, const Instruction *in, int number, int lane) {
    return as_f32(w->v[in->src[0].index + number / 2][lane] >> 16 * (number % 2) << 16);
}
/* Sixteen from each of two sources, by turns. */
static float read_f32_by_turns(const Wave *w, const Instruction *in, int number, int lane) {
    return as_f32(w->v[in->src[number % 2].index + number / 2][lane]);
}

static void narrow_all(Wave *w, const Instruction *in, ReadFn *read, u32 (*narrow)(float)) {
    u32 result[PACKED][LANES], temp[2][LANES];
    const u32 *scale = scale_row(w, in, in->n_src - 1, temp);
    memset(result, 0, sizeof result);
    for (int n = 0; n < NUMBERS; n++)
        for (int i = 0; i < LANES; i++) put_code(result, n, i, narrow(over_scale(read(w, in, n, i), scale[i])));
    for (int k = 0; k < PACKED; k++) blend(w->v[in->dst[0].index + k], result[k], exec_of(w));
}

/* `place` is the number of bits of a result. */
static void widen_all(Wave *w, const Instruction *in, float (*widen)(u32), u32 (*bits_of)(float), int place) {
    u32 result[NUMBERS][LANES], temp[2][LANES];
    const u32 *scale = scale_row(w, in, 1, temp);
    memset(result, 0, sizeof result);
    for (int n = 0; n < NUMBERS; n++)
        for (int i = 0; i < LANES; i++) {
            float value = times_scale(widen(code_at(w->v + in->src[0].index, n, i)), scale[i]);
            result[n * place / 32][i] |= bits_of(value) << n * place % 32;
        }
    for (int k = 0; k < in->dst[0].width; k++) blend(w->v[in->dst[0].index + k], result[k], exec_of(w));
}

#define NARROW(name, read, to)                                                                                        \
    static void name(Wave *w, const Instruction *in) { narrow_all(w, in, read, f32_to_##to); }
#define WIDEN(name, from, bits_of, place)                                                                             \
    static void name(Wave *w, const Instruction *in) { widen_all(w, in, from##_to_f32, bits_of, place); }
NARROW(v_cvt_scalef32_2xpk16_fp6_f32, read_f32_by_turns, fp6)
NARROW(v_cvt_scalef32_2xpk16_bf6_f32, read_f32_by_turns, bf6)
NARROW(v_cvt_scalef32_pk32_fp6_f16, read_f16, fp6)
NARROW(v_cvt_scalef32_pk32_bf6_f16, read_f16, bf6)
NARROW(v_cvt_scalef32_pk32_fp6_bf16, read_bf16, fp6)
NARROW(v_cvt_scalef32_pk32_bf6_bf16, read_bf16, bf6)
WIDEN(v_cvt_scalef32_pk32_f32_fp6, fp6, bits_f32, 32)
WIDEN(v_cvt_scalef32_pk32_f32_bf6, bf6, bits_f32, 32)
WIDEN(v_cvt_scalef32_pk32_f16_fp6, fp6, f32_to_f16, 16)
WIDEN(v_cvt_scalef32_pk32_f16_bf6, bf6, f32_to_f16, 16)
WIDEN(v_cvt_scalef32_pk32_bf16_fp6, fp6, f32_to_bf16, 16)
WIDEN(v_cvt_scalef32_pk32_bf16_bf6, bf6, f32_to_bf16, 16)

#define ALL_ROW(name, form) {#name, form, FORMAT_PLAIN, UNIT_VALU, name, NULL},

#include "../list_lanes.h"
const Op small_float_ops[] = {
#include "small_float.inc"
    ALL_ROW(v_cvt_scalef32_2xpk16_fp6_f32, "b192:b512,b512,n32")
    ALL_ROW(v_cvt_scalef32_2xpk16_bf6_f32, "b192:b512,b512,n32")
    ALL_ROW(v_cvt_scalef32_pk32_fp6_f16, "b192:b512,n32")
    ALL_ROW(v_cvt_scalef32_pk32_bf6_f16, "b192:b512,n32")
    ALL_ROW(v_cvt_scalef32_pk32_fp6_bf16, "b192:b512,n32")
    ALL_ROW(v_cvt_scalef32_pk32_bf6_bf16, "b192:b512,n32")
    ALL_ROW(v_cvt_scalef32_pk32_f32_fp6, "b1024:b192,n32")
    ALL_ROW(v_cvt_scalef32_pk32_f32_bf6, "b1024:b192,n32")
    ALL_ROW(v_cvt_scalef32_pk32_f16_fp6, "b512:b192,n32")
    ALL_ROW(v_cvt_scalef32_pk32_f16_bf6, "b512:b192,n32")
    ALL_ROW(v_cvt_scalef32_pk32_bf16_fp6, "b512:b192,n32")
    ALL_ROW(v_cvt_scalef32_pk32_bf16_bf6, "b512:b192,n32")
    {0}};

/* Number formats of 8, 6 and 4 bits, as gfx950 has them: OCP's E4M3 (fp8), E5M2 (bf8), E2M3 (fp6), E3M2 (bf6) and
   E2M1 (fp4), not the FNUZ formats of gfx942 (CDNA4 manual, table 30). Loops over lanes vectorise: no branches. */
#ifndef ROCKE_SMALL_FLOATS_H
#define ROCKE_SMALL_FLOATS_H

#include "numeric.h"

/* Formats by the number that cbsz and blgp give them (CDNA4 manual 7.1.5). */
enum { FORMAT_FP8, FORMAT_BF8, FORMAT_FP6, FORMAT_BF6, FORMAT_FP4, SMALL_FORMATS };

/* Bits of exponent and mantissa, and the exponent's bias. */
#define SHAPE_fp8 4, 3, 7
#define SHAPE_bf8 5, 2, 15
#define SHAPE_fp6 2, 3, 1
#define SHAPE_bf6 3, 2, 3
#define SHAPE_fp4 2, 1, 1

static inline float power_of_two(int exponent) { return as_f32((u32)(127 + exponent) << 23); }

/* All numbers of these formats are normal fp32 numbers, so the flush mode of fp32 touches none. */
static inline float widen_number(u32 code, int exponent_bits, int mantissa_bits, int bias) {
    u32 magnitude = code & ((1u << (exponent_bits + mantissa_bits)) - 1);
    u32 sign = (code >> (exponent_bits + mantissa_bits) & 1) << 31;
    u32 normal = (magnitude << (23 - mantissa_bits)) + ((u32)(127 - bias) << 23);
    u32 tiny = bits_f32((float)(i32)magnitude * power_of_two(1 - bias - mantissa_bits));
    return as_f32((magnitude >> mantissa_bits ? normal : tiny) | sign);
}
static inline float fp8_to_f32(u32 code) {
    float number = widen_number(code, SHAPE_fp8);
    return (code & 0x7f) == 0x7f ? as_f32(0x7fc00000 | (code & 0x80) << 24) : number;
}
/* E5M2 is the upper half of fp16. */
static inline float bf8_to_f32(u32 code) { return f16_to_f32((code & 0xff) << 8); }
static inline float fp6_to_f32(u32 code) { return widen_number(code, SHAPE_fp6); }
static inline float bf6_to_f32(u32 code) { return widen_number(code, SHAPE_bf6); }
static inline float fp4_to_f32(u32 code) { return widen_number(code, SHAPE_fp4); }

/* The nearest number's code without sign, ties to even, as if there were no largest exponent. */
static inline u32 narrow_number(float value, int exponent_bits, int mantissa_bits, int bias) {
    u32 x = bits_f32(value) & 0x7fffffff, drop = 23 - (u32)mantissa_bits;
    u32 normal = (x - ((u32)(127 - bias) << 23) + (1u << (drop - 1)) - 1 + (x >> drop & 1)) >> drop;
    float one_step = power_of_two(1 - bias - mantissa_bits + 23); /* its last place is the smallest denormal */
    u32 tiny = bits_f32(as_f32(x) + one_step) - bits_f32(one_step);
    (void)exponent_bits;
    return x < (u32)(128 - bias) << 23 ? tiny : normal;
}
/* The same toward zero. */
static inline u32 truncate_number(float value, int exponent_bits, int mantissa_bits, int bias) {
    u32 x = bits_f32(value) & 0x7fffffff, normal = (x - ((u32)(127 - bias) << 23)) >> (23 - mantissa_bits);
    u32 smallest_normal = (u32)(128 - bias) << 23;
    u32 tiny = (u32)(i32)(as_f32(x < smallest_normal ? x : 0) * power_of_two(bias + mantissa_bits - 1));
    (void)exponent_bits;
    return x < smallest_normal ? tiny : normal;
}

static inline u32 is_nan_f32(float value) { return (bits_f32(value) & 0x7fffffff) > 0x7f800000; }
static inline u32 sign_f32(float value) { return bits_f32(value) >> 31; }

/* Overflow gives NaN or infinity, and the largest number if FP16_OVFL is set in the mode (CDNA4 manual 7.3). */
enum { MODE_FP16_OVFL = 1 << 23 };
static inline u32 finish_fp8(float value, u32 code, u32 mode) {
    u32 over = mode & MODE_FP16_OVFL ? 0x7e : 0x7f;
    return sign_f32(value) << 7 | (is_nan_f32(value) ? 0x7f : code > 0x7e ? over : code);
}
static inline u32 finish_bf8(float value, u32 code, u32 mode) {
    u32 over = mode & MODE_FP16_OVFL ? 0x7b : 0x7c;
    return sign_f32(value) << 7 | (is_nan_f32(value) ? 0x7f : code > 0x7b ? over : code);
}
static inline u32 f32_to_fp8(float value, u32 mode) { return finish_fp8(value, narrow_number(value, SHAPE_fp8), mode); }
static inline u32 f32_to_bf8(float value, u32 mode) { return finish_bf8(value, narrow_number(value, SHAPE_bf8), mode); }

/* The formats without infinity saturate. What NaN becomes is not documented. */
static inline u32 saturate(float value, u32 code, u32 most) {
    return sign_f32(value) * (most + 1) | (code > most ? most : code);
}
static inline u32 f32_to_fp6(float value) { return saturate(value, narrow_number(value, SHAPE_fp6), 31); }
static inline u32 f32_to_bf6(float value) { return saturate(value, narrow_number(value, SHAPE_bf6), 31); }
static inline u32 f32_to_fp4(float value) { return saturate(value, narrow_number(value, SHAPE_fp4), 7); }

/* Stochastic rounding: the upper bits of a random number are added to as many as the result drops, and the sum is cut
   off (CDNA4 manual 7.3). The manual's pseudocode would let the sum wrap within the mantissa and round it again. */
static inline float add_random(float value, u32 random, int mantissa_bits) {
    u32 bits = bits_f32(value), finite = (bits & 0x7f800000) != 0x7f800000;
    return as_f32(bits + (finite ? random >> (9 + mantissa_bits) : 0));
}
static inline u32 f32_to_fp8_random(float value, u32 random, u32 mode) {
    return finish_fp8(value, truncate_number(add_random(value, random, 3), SHAPE_fp8), mode);
}
static inline u32 f32_to_bf8_random(float value, u32 random, u32 mode) {
    return finish_bf8(value, truncate_number(add_random(value, random, 2), SHAPE_bf8), mode);
}

/* A scale is the exponent of an fp32 number, 2**-127 the least; its largest value is NaN. Widening multiplies by the
   scale, narrowing divides. */
static inline float scale_by(float value, u32 scale, int direction) {
    u32 exponent = scale >> 23 & 255;
    float scaled = ldexp_f32(value, direction * ((i32)exponent - 127));
    return exponent == 255 ? as_f32(0x7fc00000) : scaled;
}
static inline float times_scale(float value, u32 scale) { return scale_by(value, scale, 1); }
static inline float over_scale(float value, u32 scale) { return scale_by(value, scale, -1); }

#endif

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

#endif

/* Number formats and the transcendental functions. The vectoriser sees all of it: no calls, no branches. */
#ifndef ROCKE_NUMERIC_H
#define ROCKE_NUMERIC_H

#include <math.h>
#include "machine.h"

static inline float as_f32(u32 bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static inline u32 bits_f32(float value) {
    u32 bits;
    memcpy(&bits, &value, 4);
    return bits;
}
static inline double as_f64(u64 bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}
static inline u64 bits_f64(double value) {
    u64 bits;
    memcpy(&bits, &value, 8);
    return bits;
}
static inline u64 join(u32 low, u32 high) { return (u64)high << 32 | low; }

/* 16-bit denormals become normal fp32 numbers, so the flush mode of fp32 does not touch them. */
static inline float f16_to_f32(u32 h) {
    u32 magnitude = h & 0x7fff, sign = (h & 0x8000) << 16;
    u32 normal = (magnitude << 13) + (112u << 23);
    normal += magnitude >= 0x7c00 ? 112u << 23 : 0;
    u32 quiet = magnitude > 0x7c00 ? 0x400000 : 0;
    u32 tiny = bits_f32((float)(i32)magnitude * 0x1p-24f);
    return as_f32((magnitude < 0x400 ? tiny : normal | quiet) | sign);
}

static inline u32 f32_to_f16(float value) {
    u32 bits = bits_f32(value), sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
    u32 normal = (x - (112u << 23) + 0xfff + (x >> 13 & 1)) >> 13;
    u32 tiny = bits_f32(as_f32(x) + 0.5f) - bits_f32(0.5f); /* the addition rounds to 2**-24 */
    u32 finite = x < 113u << 23 ? tiny : normal;
    u32 special = x > 0x7f800000 ? 0x7e00 | (x >> 13 & 0x1ff) : 0x7c00;
    return sign | (x >= 0x47800000 ? special : finite);
}

static inline u32 f32_to_f16_toward_zero(float value) {
    u32 bits = bits_f32(value), sign = bits >> 16 & 0x8000, x = bits & 0x7fffffff;
    u32 normal = (x - (112u << 23)) >> 13;
    u32 tiny = (u32)(i32)(as_f32(x < 113u << 23 ? x : 0) * 0x1p24f);
    u32 finite = x < 113u << 23 ? tiny : normal;
    u32 special = x > 0x7f800000 ? 0x7e00 | (x >> 13 & 0x1ff) : x == 0x7f800000 ? 0x7c00 : 0x7bff;
    return sign | (x >= 0x47800000 ? special : finite);
}

/* fp64 to fp16 in one rounding: the intermediate fp32 is rounded to odd. */
static inline u32 f64_to_f16(double value) {
    float near = (float)value;
    double back = near;
    u32 bits = bits_f32(near);
    if (back != value && back == back && !(bits & 1)) {
        int away = fabs(back) > fabs(value);
        bits = away ? bits - 1 : bits + 1;
    }
    return f32_to_f16(as_f32(bits));
}

static inline float bf16_to_f32(u32 b) { return as_f32(b << 16); }

static inline u32 f32_to_bf16(float value) {
    u32 x = bits_f32(value);
    u32 rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
    u32 nan = x >> 16 | 0x40;
    return (x & 0x7fffffff) > 0x7f800000 ? nan : rounded;
}

/* 2**x, good to about 0.5 ulp: the polynomial runs in double (fitted error below 2**-33). */
static inline float exp2_f32(float x) {
    float clipped = x > 129.0f ? 129.0f : x;
    clipped = clipped < -160.0f ? -160.0f : clipped;
    float whole = clipped + 12582912.0f; /* 1.5 * 2**23: rounds to an integer */
    i32 exponent = (i32)bits_f32(whole) - 0x4b400000;
    double t = (double)clipped - (double)exponent;
    double p = 1.5303699001378845e-05;
    p = p * t + 0.00015469729140704658;
    p = p * t + 0.0013333478480888061;
    p = p * t + 0.009618025613598036;
    p = p * t + 0.055504109063177154;
    p = p * t + 0.24022651213495422;
    p = p * t + 0.6931471805568341;
    p = p * t + 0.9999999999595622;
    double scaled = p * as_f64((u64)(i64)(exponent + 1023) << 52);
    float result = (float)scaled;
    return x == x ? result : as_f32(bits_f32(x) | 0x400000);
}

/* log2(x), good to about 0.5 ulp: atanh series in double around the nearest of sqrt(1/2)..sqrt(2). */
static inline float log2_f32(float x, u32 flush) {
    u32 bits = bits_f32(x), magnitude = bits & 0x7fffffff;
    u32 denormal = magnitude < 0x800000;
    double wide = denormal ? (double)(i32)magnitude * 0x1p-149 : (double)as_f32(magnitude);
    u64 w = bits_f64(wide);
    i32 shifted = (i32)((w - 0x3fe6a09e667f3bcdull) >> 32) >> 20; /* exponent relative to sqrt(1/2) */
    double m = as_f64(w - ((u64)(i64)shifted << 52));
    double s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 0.22192450388988477;
    p = p * z + 0.2623081892525388;
    p = p * z + 0.3205988979753252;
    p = p * z + 0.41219858311113243;
    p = p * z + 0.5770780163555854;
    p = p * z + 0.9617966939259756;
    p = p * z + 2.8853900817779268;
    float result = (float)((double)shifted + p * s);
    u32 zero = magnitude == 0 || (denormal && flush);
    result = magnitude == 0x7f800000 ? as_f32(0x7f800000) : result;
    result = bits >> 31 ? as_f32(0x7fc00000) : result;
    result = zero ? as_f32(0xff800000) : result;
    return magnitude > 0x7f800000 ? as_f32(bits | 0x400000) : result;
}

static inline float ldexp_f32(float x, i32 power) {
    i32 p = power < -320 ? -320 : power > 320 ? 320 : power;
    i32 half = p / 2;
    double scaled = (double)x * as_f64((u64)(i64)(half + 1023) << 52) * as_f64((u64)(i64)(p - half + 1023) << 52);
    return (float)scaled;
}

static inline float fract_f32(float x) {
    float f = x - floorf(x);
    return f >= 1.0f ? 0x1.fffffep-1f : f;
}

/* The float comparisons that pick an operand: a NaN loses against a number. */
static inline float max_f32(float a, float b) {
    float larger = a > b || (a == b && !(bits_f32(a) >> 31)) ? a : b;
    return a != a ? b : b != b ? a : larger;
}
static inline float min_f32(float a, float b) {
    float smaller = a < b || (a == b && bits_f32(a) >> 31) ? a : b;
    return a != a ? b : b != b ? a : smaller;
}
static inline double max_f64(double a, double b) {
    double larger = a > b || (a == b && !(bits_f64(a) >> 63)) ? a : b;
    return a != a ? b : b != b ? a : larger;
}
static inline double min_f64(double a, double b) {
    double smaller = a < b || (a == b && bits_f64(a) >> 63) ? a : b;
    return a != a ? b : b != b ? a : smaller;
}
static inline float med3_f32(float a, float b, float c) {
    float low = min_f32(a, b), high = max_f32(a, b);
    float middle = max_f32(low, min_f32(high, c));
    return a != a || b != b || c != c ? min_f32(low, c) : middle;
}

/* Conversions clip and send NaN to zero. */
static inline i32 f64_to_i32(double x) {
    double clipped = x < -2147483648.0 ? -2147483648.0 : x > 2147483647.0 ? 2147483647.0 : x;
    return x == x ? (i32)clipped : 0;
}
static inline u32 f64_to_u32(double x) {
    double clipped = x < 0.0 ? 0.0 : x > 4294967295.0 ? 4294967295.0 : x;
    return x == x ? (u32)(i64)clipped : 0;
}

static inline u32 count_leading(u32 x) { return x ? (u32)__builtin_clz(x) : 0xffffffffu; }
static inline u32 find_first(u32 x) { return x ? (u32)__builtin_ctz(x) : 0xffffffffu; }
static inline u32 leading_sign(u32 x) { return count_leading((i32)x < 0 ? ~x : x); }
static inline u32 reverse_bits(u32 x) {
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
static inline u32 field_unsigned(u32 value, u32 offset, u32 width) {
    return width ? value >> offset & (0xffffffffu >> (32 - width)) : 0;
}
static inline i32 field_signed(u32 value, u32 offset, u32 width) {
    if (!width) return 0;
    u32 top = offset + width > 32 ? 32 : offset + width;
    return (i32)(value << (32 - top)) >> (32 - top) >> offset;
}

#endif

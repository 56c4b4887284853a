/* Pieces of single instructions that do not fit a table line: division steps, classes, byte and bit tables. */
#ifndef ROCKE_ARITHMETIC_H
#define ROCKE_ARITHMETIC_H

#include "numeric.h"

/* Multiplying by a one that the compiler cannot see flushes a denormal when the mode says so. */
extern float one_f32, denormal_f32;
static inline float flush_f32(float x) { return x * one_f32; }
static inline u32 flushes_f32(void) { return denormal_f32 * one_f32 == 0.0f; }

static inline u32 u32_to_f32_high(u32 a) { return a >> 16; }
static inline float u32_to_f32(u32 a) {
    return (float)((double)(i32)u32_to_f32_high(a) * 65536.0 + (double)(i32)(a & 0xffff));
}
static inline float reciprocal_root_f32(float a) { return (float)(1.0 / sqrt((double)flush_f32(a))); }

/* IEEE 754-2019 minimum and maximum: a NaN wins. The single bars keep them free of branches. */
static inline float minimum_f32(float a, float b) {
    float smaller = (a < b) | ((a == b) & (int)(bits_f32(a) >> 31)) ? a : b;
    return (a != a) | (b != b) ? as_f32(0x7fc00000) : smaller;
}
static inline float maximum_f32(float a, float b) {
    float larger = (a > b) | ((a == b) & (int)(~bits_f32(a) >> 31)) ? a : b;
    return (a != a) | (b != b) ? as_f32(0x7fc00000) : larger;
}

/* sin and cos take turns, not radians. */
static inline float sin_turns(float a) { return (float)sin(6.283185307179586 * ((double)a - rint((double)a))); }
static inline float cos_turns(float a) { return (float)cos(6.283185307179586 * ((double)a - rint((double)a))); }

static inline u32 exponent_f32(float x) { return bits_f32(x) >> 23 & 255; }
static inline u32 exponent_f64(double x) { return bits_f64(x) >> 52 & 2047; }
static inline double ldexp_f64(double x, i32 power) { return ldexp(x, power); }
static inline double fract_f64(double x) {
    double f = x - floor(x);
    return f >= 1.0 ? 0x1.fffffffffffffp-1 : f;
}
static inline float frexp_mantissa_f32(float x) {
    int e;
    return isfinite(x) ? frexpf(x, &e) : x;
}
static inline i32 frexp_exponent_f32(float x) {
    int e = 0;
    if (isfinite(x)) frexpf(x, &e);
    return e;
}
static inline double frexp_mantissa_f64(double x) {
    int e;
    return isfinite(x) ? frexp(x, &e) : x;
}
static inline i32 frexp_exponent_f64(double x) {
    int e = 0;
    if (isfinite(x)) frexp(x, &e);
    return e;
}

/* The steps of a full-precision division, as AMD's instruction set manuals write them: scale, then Newton steps,
   fmas (which undoes the scaling by 2**64 up or down; the manuals' 2**32 cannot be right) and fixup.
   value / denominator / numerator are sources 0, 1 and 2. */
static inline float div_scale_f32(float value, float denominator, float numerator, u32 *scaled) {
    i32 gap = (i32)exponent_f32(numerator) - (i32)exponent_f32(denominator);
    i32 e = (i32)exponent_f32(denominator);
    int same_denominator = bits_f32(value) == bits_f32(denominator);
    int same_numerator = bits_f32(value) == bits_f32(numerator);
    int reciprocal_denormal = e >= 253; /* 1 / denominator is below 2**-126 */
    float quotient = (float)((double)numerator / (double)denominator);
    int quotient_denormal = fabsf(quotient) < 0x1p-126f;
    *scaled = 0;
    if (numerator == 0.0f || denominator == 0.0f) return as_f32(0x7fc00000);
    if (gap >= 96) return *scaled = 1, same_denominator ? ldexp_f32(value, 64) : value;
    if (e == 0) return ldexp_f32(value, 64);
    if (reciprocal_denormal && quotient_denormal) return *scaled = 1, same_denominator ? ldexp_f32(value, 64) : value;
    if (reciprocal_denormal) return ldexp_f32(value, -64);
    if (quotient_denormal) return *scaled = 1, same_numerator ? ldexp_f32(value, 64) : value;
    if (exponent_f32(numerator) <= 23) return ldexp_f32(value, 64);
    return value;
}

static inline double div_scale_f64(double value, double denominator, double numerator, u32 *scaled) {
    i32 gap = (i32)exponent_f64(numerator) - (i32)exponent_f64(denominator);
    i32 e = (i32)exponent_f64(denominator);
    int same_denominator = bits_f64(value) == bits_f64(denominator);
    int same_numerator = bits_f64(value) == bits_f64(numerator);
    int reciprocal_denormal = e >= 2045;
    int quotient_denormal = fabs(numerator / denominator) < 0x1p-1022;
    *scaled = 0;
    if (numerator == 0.0 || denominator == 0.0) return as_f64(0x7ff8000000000000ull);
    if (gap >= 768) return *scaled = 1, same_denominator ? ldexp(value, 128) : value;
    if (e == 0) return ldexp(value, 128);
    if (reciprocal_denormal && quotient_denormal) return *scaled = 1, same_denominator ? ldexp(value, 128) : value;
    if (reciprocal_denormal) return ldexp(value, -128);
    if (quotient_denormal) return *scaled = 1, same_numerator ? ldexp(value, 128) : value;
    if (exponent_f64(numerator) <= 53) return ldexp(value, 128);
    return value;
}

static inline float div_fixup_f32(float quotient, float denominator, float numerator) {
    u32 sign = (bits_f32(denominator) ^ bits_f32(numerator)) & 0x80000000u;
    u32 d = bits_f32(denominator) & 0x7fffffff, n = bits_f32(numerator) & 0x7fffffff;
    int d_zero = denominator == 0.0f, n_zero = numerator == 0.0f;
    u32 result = sign | (bits_f32(quotient) & 0x7fffffff);
    if ((i32)(n >> 23) - (i32)(d >> 23) < -150) result = sign;
    if (d == 0x7f800000 || n_zero) result = sign;
    if (d_zero || n == 0x7f800000) result = sign | 0x7f800000;
    if ((d == 0x7f800000 && n == 0x7f800000) || (d_zero && n_zero)) result = 0xffc00000;
    if (d > 0x7f800000) result = bits_f32(denominator) | 0x400000;
    if (n > 0x7f800000) result = bits_f32(numerator) | 0x400000;
    return as_f32(result);
}

static inline double div_fixup_f64(double quotient, double denominator, double numerator) {
    u64 top = 0x7ff0000000000000ull, quiet = 1ull << 51;
    u64 sign = (bits_f64(denominator) ^ bits_f64(numerator)) & 1ull << 63;
    u64 d = bits_f64(denominator) & ~(1ull << 63), n = bits_f64(numerator) & ~(1ull << 63);
    u64 result = sign | (bits_f64(quotient) & ~(1ull << 63));
    if ((i32)(n >> 52) - (i32)(d >> 52) < -1075) result = sign;
    if (d == top || n == 0) result = sign;
    if (d == 0 || n == top) result = sign | top;
    if ((d == top && n == top) || (d == 0 && n == 0)) result = 1ull << 63 | top | quiet;
    if (d > top) result = bits_f64(denominator) | quiet;
    if (n > top) result = bits_f64(numerator) | quiet;
    return as_f64(result);
}

/* Class bits: sNaN, qNaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf. */
static inline u32 class_bit(u32 negative, u32 nan, u32 quiet, u32 infinite, u32 zero, u32 denormal) {
    if (nan) return quiet ? 1 : 0;
    u32 size = infinite ? 3 : zero ? 0 : denormal ? 1 : 2;
    return negative ? 5 - size : 6 + size;
}
static inline u32 class_f32(u32 x) {
    u32 m = x & 0x7fffffff;
    return class_bit(x >> 31, m > 0x7f800000, x >> 22 & 1, m == 0x7f800000, m == 0, m < 0x800000);
}
static inline u32 class_f64(u64 x) {
    u64 m = x & ~(1ull << 63), top = 0x7ff0000000000000ull;
    return class_bit((u32)(x >> 63), m > top, (u32)(x >> 51 & 1), m == top, m == 0, m < 1ull << 52);
}
static inline u32 class_f16(u32 x) {
    u32 m = x & 0x7fff;
    return class_bit(x >> 15 & 1, m > 0x7c00, x >> 9 & 1, m == 0x7c00, m == 0, m < 0x400);
}
static inline u32 in_class(u32 bit, u32 mask) { return mask >> bit & 1; }

/* The truth table of v_bitop3: source 0 is the most significant bit of its index. */
static inline u32 logic3(u32 a, u32 b, u32 c, u32 table) {
    u32 result = 0;
    for (int k = 0; k < 8; k++) {
        u32 term = (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
        result |= term & (0u - (table >> k & 1));
    }
    return result;
}

/* Sums of products, rounded once: how the hardware rounds inside is not published. */
static inline float dot2_f16(u32 a, u32 b, float c) {
    double low = (double)f16_to_f32(a & 0xffff) * f16_to_f32(b & 0xffff);
    return (float)(low + (double)f16_to_f32(a >> 16) * f16_to_f32(b >> 16) + c);
}
static inline float dot2_bf16(u32 a, u32 b, float c) {
    double low = (double)bf16_to_f32(a & 0xffff) * bf16_to_f32(b & 0xffff);
    return (float)(low + (double)bf16_to_f32(a >> 16) * bf16_to_f32(b >> 16) + c);
}

static inline i32 clip_i32(i64 x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (i32)x; }

/* v_lerp_u8: the mean of each two bytes, rounded up where the byte of c is odd. */
static inline u32 mean_of_bytes(u32 a, u32 b, u32 c) {
    u32 result = 0;
    for (int at = 0; at < 32; at += 8) result |= ((a >> at & 255) + (b >> at & 255) + (c >> at & 1)) >> 1 << at;
    return result;
}
static inline u32 clip_byte(i32 x, i32 least, i32 most) { return (u32)(x < least ? least : x > most ? most : x) & 255; }
static inline float round_f16(float x) { return f16_to_f32(f32_to_f16(x)); }

/* The face of a cube that a direction meets, its axis, and the place on it. z comes before y before x. */
static inline u32 cube_major(float x, float y, float z) {
    u32 is_z = (fabsf(z) >= fabsf(x)) & (fabsf(z) >= fabsf(y)), is_y = fabsf(y) >= fabsf(x);
    return is_z ? 2 : is_y;
}
static inline float cube_axis(float x, float y, float z) {
    u32 major = cube_major(x, y, z);
    return major == 2 ? z : major ? y : x;
}
static inline float cube_face(float x, float y, float z) {
    return (float)(i32)(2 * cube_major(x, y, z) + (cube_axis(x, y, z) < 0.0f));
}
static inline float cube_s(float x, float y, float z) {
    u32 major = cube_major(x, y, z), negative = cube_axis(x, y, z) < 0.0f;
    return major == 2 ? (negative ? -x : x) : major ? x : negative ? z : -z;
}
static inline float cube_t(float x, float y, float z) {
    u32 major = cube_major(x, y, z), negative = y < 0.0f;
    return major == 1 ? (negative ? -z : z) : -y;
}

/* v_trig_preop_f64: 53 bits of 2/pi, from a place that the argument's exponent and the segment choose. */
static const u64 TWO_OVER_PI[19] = {
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull};

static inline double two_over_pi(double x, u32 segment) {
    u32 e = exponent_f64(x), shift = (segment & 31) * 53 + (e > 1077 ? e - 1077 : 0);
    u32 word = shift / 64, bit = shift % 64;
    u64 high = word < 19 ? TWO_OVER_PI[word] : 0, low = word + 1 < 19 ? TWO_OVER_PI[word + 1] : 0;
    u64 bits = (bit ? high << bit | low >> (64 - bit) : high) >> 11;
    return ldexp((double)bits, -53 - (i32)shift + (e >= 1968 ? 128 : 0));
}

/* v_perm_b32: selectors 0..7 pick a byte, 8..11 the sign of bytes 1, 3, 5, 7, 12 is 0 and above is 0xff. */
static inline u32 permute_bytes(u64 bytes, u32 selectors) {
    u32 result = 0;
    for (int k = 0; k < 4; k++) {
        u32 s = selectors >> 8 * k & 255;
        u32 byte = (u32)(bytes >> 8 * (s & 7)) & 255;
        u32 sign = bytes >> (16 * (s & 3) + 15) & 1 ? 255 : 0;
        result |= (s < 8 ? byte : s < 12 ? sign : s == 12 ? 0 : 255) << 8 * k;
    }
    return result;
}

#endif

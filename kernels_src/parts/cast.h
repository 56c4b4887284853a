// Casts between element types, each a single rounding.
#pragma once
#include "common/element.h"
#include "common/math.h"
#include "isa/lane.h"

namespace rocke {

// To the nearest value of a 16-bit type, ties to even, from a magnitude with more bits. In integers: kernels are compiled to
// flush fp32 denormals, of which many are bfloat16 values, and there is no instruction from float64 to 16 bits.
template <class To, int exponent_bits, int mantissa_bits>
__device__ __forceinline__ To round_magnitude(uint32 sign, uint32 magnitude) {
  using T = Format<To>;
  constexpr int dropped = mantissa_bits - T::mantissa, bias_step = (1 << (exponent_bits - 1)) - (1 << (T::exponent - 1));
  constexpr uint32 hidden = 1u << mantissa_bits, infinite = ((1u << T::exponent) - 1) << T::mantissa;
  const uint32 mantissa = magnitude & (hidden - 1);
  const int exponent = int(magnitude >> mantissa_bits), target = exponent - bias_step;

  // With the exponent above the mantissa, a carry out of the rounding moves on to the next power of two. Below the target's
  // normal range the hidden bit is explicit, and all of it shifts down.
  uint32 value = uint32(target) << mantissa_bits | mantissa;
  int shift = dropped;
  if (exponent_bits != T::exponent && target <= 0) {
    value = exponent > 0 ? mantissa | hidden : 0;
    shift = min(dropped + 1 - target, mantissa_bits + 2);
  }
  const uint32 kept = value >> shift, rest = value & ((1u << shift) - 1), half = 1u << (shift - 1);
  uint32 rounded = kept + (rest + (kept & 1) > half);
  if (target >= (1 << T::exponent) - 1) rounded = infinite;
  if (exponent == (1 << exponent_bits) - 1 && mantissa != 0) rounded = infinite | 1u << (T::mantissa - 1);
  // Opaque: done with this number before the next, whose conditions would fill the scalar registers.
  return bit_cast<To>(Bits<To>(opaque(sign << 15 | rounded)));
}

template <class To>
__device__ __forceinline__ To round_to(float value) {
  const uint32 bits = bit_cast<uint32>(value);
  return round_magnitude<To, 8, 23>(bits >> 31, bits & 0x7fffffff);
}
// The 31 low bits only matter by being zero or not, so they become one bit.
template <class To>
__device__ __forceinline__ To round_to(double value) {
  const uint64 bits = bit_cast<uint64>(value);
  return round_magnitude<To, 11, 21>(uint32(bits >> 63), uint32(bits << 1 >> 32) | ((uint32(bits) & 0x7fffffff) != 0));
}

// The mean of finite values, a weighted sum times a factor. It lies among them, so that no rounding may carry it past the
// largest value of the type that it goes to. An infinite or NaN sum stays what it is.
template <class To, class Sum>
__device__ __forceinline__ Sum finite_mean(Sum sum, Sum factor) {
  constexpr Sum largest = Format<To>::largest;
  const Sum mean = sum * factor, inside = min(max(mean, -largest), largest);
  return __builtin_elementwise_abs(sum) < infinity ? inside : mean;
}

template <class To, class From>
__device__ __forceinline__ To cast(From value) {
  if constexpr (sizeof(To) == 2 && sizeof(From) > 2)
    return round_to<To>(value);
  else
    return To(value);
}

}  // namespace rocke

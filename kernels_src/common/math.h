// Small integer helpers and the constants of the softmax.
#pragma once
#include "common/types.h"

namespace rocke {

constexpr float log2_e = 1.44269504088896340736f;
constexpr float ln_2 = 0.69314718055994530942f;
constexpr float float32_max = 3.40282346638528859812e38f;
constexpr float infinity = __builtin_inff();

constexpr int wave_lanes = 64;

template <class T>
__host__ __device__ constexpr T min(T a, T b) {
  return a < b ? a : b;
}
template <class T>
__host__ __device__ constexpr T max(T a, T b) {
  return a > b ? a : b;
}
__host__ __device__ constexpr int ceil_div(int a, int b) { return a / b + (a % b > 0); }

}  // namespace rocke

// Floating-point instructions without the guards that the library functions add.
#pragma once
#include "common/types.h"

namespace rocke {

__device__ __forceinline__ float exp2_raw(float x) { return __builtin_amdgcn_exp2f(x); }
__device__ __forceinline__ float log2_raw(float x) { return __builtin_amdgcn_logf(x); }
__device__ __forceinline__ float reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }
// A NaN is ignored beside a number. As assembly, since the compiler would first make every signalling NaN a quiet one, an
// instruction for each operand.
__device__ __forceinline__ float max3(float a, float b, float c) {
  float result;
  asm("v_max3_f32 %0, %1, %2, %3" : "=v"(result) : "v"(a), "v"(b), "v"(c));
  return result;
}
__device__ __forceinline__ float max2(float a, float b) {
  float result;
  asm("v_max_f32 %0, %1, %2" : "=v"(result) : "v"(a), "v"(b));
  return result;
}

}  // namespace rocke

// Floating-point instructions without the guards that the library functions add.
#pragma once
#include "common/types.h"

namespace rocke {

__device__ __forceinline__ float exp2_raw(float x) { return __builtin_amdgcn_exp2f(x); }
__device__ __forceinline__ float log2_raw(float x) { return __builtin_amdgcn_logf(x); }
__device__ __forceinline__ float reciprocal(float x) { return __builtin_amdgcn_rcpf(x); }
// A NaN beside a number is the result: v_maximum3_f32, new on gfx950. The older v_max3_f32 costs an instruction more for each
// operand, by which the compiler makes every signalling NaN a quiet one.
__device__ __forceinline__ float max3(float a, float b, float c) {
  return __builtin_elementwise_maximum(__builtin_elementwise_maximum(a, b), c);
}
__device__ __forceinline__ float max2(float a, float b) { return __builtin_elementwise_maximum(a, b); }

}  // namespace rocke

// Matrix instructions: D[32 x 32] = A[32 x 16] * B[16 x 32] + C, one wave.
//
// Lane l holds A[m = l % 32][k = 8 * (l / 32) + e], B[k = 8 * (l / 32) + e][n = l % 32] for e in 0..7, and
// C/D[m = 8 * (r / 4) + 4 * (l / 32) + r % 4][n = l % 32] in register r of 16.
#pragma once
#include "common/types.h"

namespace rocke {

__device__ __forceinline__ f32x16 mfma_32x32x16(vec<__bf16, 8> a, vec<__bf16, 8> b, f32x16 c) {
  return __builtin_amdgcn_mfma_f32_32x32x16_bf16(a, b, c, 0, 0, 0);
}
__device__ __forceinline__ f32x16 mfma_32x32x16(vec<_Float16, 8> a, vec<_Float16, 8> b, f32x16 c) {
  return __builtin_amdgcn_mfma_f32_32x32x16_f16(a, b, c, 0, 0, 0);
}

// Wait states from a matrix instruction to a vector instruction that reads or writes its result: 8 passes and 4 more.
constexpr int mfma_result_states = 12;

// Row m of register r of a C/D block, less the 4 * (lane / 32) that depends on the lane.
__device__ constexpr int mfma_row(int r) { return 8 * (r / 4) + r % 4; }

}  // namespace rocke

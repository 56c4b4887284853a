// The largest of a lane's scores.
#pragma once
#include "common/static_for.h"
#include "isa/float.h"

namespace rocke {

// Of 32 scores, in 16 instructions. Four chains by turns: one that waits for itself costs an s_nop at each link.
__device__ __forceinline__ float maximum(const f32x16 (&scores)[2]) {
  float top[4];
  static_for<0, 3>([&](auto i) {
    static_for<0, 4>([&](auto chain) {
      const f32x16& s = scores[chain / 2];
      constexpr int r = 8 * (chain % 2) + 2 * i + 1;
      top[chain] = max3(i == 0 ? s[r - 1] : top[chain], s[r], s[r + 1]);
    });
  });
  const float low = max3(top[0], scores[0][7], scores[0][15]), high = max3(top[1], scores[1][7], scores[1][15]);
  return max2(max3(low, top[2], top[3]), high);
}

// Of a block of 32 keys alone.
__device__ __forceinline__ float maximum(const f32x16 (&scores)[1]) {
  float top = scores[0][0];
  static_for<0, 7>([&](auto i) {
    constexpr int r = 2 * i + 1;
    top = max3(top, scores[0][r], scores[0][r + 1]);
  });
  return max2(top, scores[0][15]);
}

}  // namespace rocke

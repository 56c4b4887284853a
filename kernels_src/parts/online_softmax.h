// The running softmax of a row, without its division.
//
// Scores stay in the units of q.k; the scale enters once, as the factor c = |softmax_scale| log2(e) of (score - anchor): never
// as score * c - anchor * c, which loses all digits when the scores are large. The anchor is the running maximum, or a little
// below it (lazy rescale). Its negative is the C operand of the first MFMA of each block of scores, so that the subtraction
// costs no instruction.
#pragma once
#include "common/math.h"
#include "common/static_for.h"
#include "isa/float.h"
#include "isa/lane.h"
#include "tile/kv_layout.h"

namespace rocke {

// What became of the anchors of a wave's rows in a tile.
struct AnchorMove {
  bool any;
  float minus_anchor;  // the new one, and
  float shrink;        // by which it scales what the lane's row has accumulated; both are set only if `any`
};

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

template <class V>
struct OnlineSoftmax {
  float c;
  f32x16 minus_anchor;   // 16 copies: an MFMA operand
  float limit;           // move the anchor when a score is more than this above it; -inf until the row has seen a key
  f32x2 sum[2];          // of the probabilities of the lane's half, in four parts
  vec<Element<V>, 8> p[Tiling<V>::pv_steps];  // probabilities of the previous tile, the B operand of P V

  __device__ explicit OnlineSoftmax(float softmax_scale)
      : c(uniform(softmax_scale == 0 ? 1.f : min(__builtin_fabsf(softmax_scale) * log2_e, float32_max))),
        minus_anchor(0.f), limit(-infinity), sum{0.f, 0.f} {}

  // How far above the anchor a score may be, in units of q.k: 2**8 keeps a probability exact in fp32 and finite in fp16. Zero
  // makes the anchor the maximum itself.
  __device__ float lazy_limit() const { return V::lazy_rescale ? 8.f / c : 0.f; }

  // Moves the anchors of rows with a score above their limit. Scores are relative to the anchor before and after.
  __device__ __forceinline__ AnchorMove move_anchor(f32x16 (&scores)[2]) {
    float top = maximum(scores);
    AnchorMove move;
    move.any = any_lane(top > limit);
    if (__builtin_expect(move.any, false)) {
      const f32x2 halves = both_halves(top);
      top = max2(halves[0], halves[1]);
      const bool moves = top > limit;
      move.minus_anchor = minus_anchor[0] - (moves ? top : 0.f);
      const float shift = minus_anchor[0] - move.minus_anchor;  // as rounded, so that all tiles share one anchor
      limit = moves ? lazy_limit() : limit;
      scores[0] -= shift;
      scores[1] -= shift;
      // A first anchor may be below 0; nothing is accumulated then.
      move.shrink = exp2_raw(__builtin_fminf(-shift * c, 0.f));
      for (auto& part : sum) part *= move.shrink;
    }
    return move;
  }
  // Takes the anchor of a move into use, for the tiles to come: a block of registers, not a value to be spread at each use.
  __device__ __forceinline__ void set_anchor(const AnchorMove& move) { minus_anchor = opaque(f32x16(move.minus_anchor)); }

  // Probabilities of a block of 32 keys, in place.
  __device__ __forceinline__ void scale(f32x16& scores) const { scores *= c; }
  __device__ __forceinline__ void exponentiate(f32x16& scores) const {
#pragma unroll
    for (int r = 0; r < 16; r++) scores[r] = exp2_raw(scores[r]);
  }
  __device__ __forceinline__ void add(const f32x16& probabilities) {
#pragma unroll
    for (int r = 0; r < 16; r += 2) sum[r / 2 % 2] += f32x2{probabilities[r], probabilities[r + 1]};
  }
  template <int n>
  __device__ __forceinline__ void pack(const f32x16& probabilities) {
    p[2 * n] = __builtin_convertvector(__builtin_shufflevector(probabilities, probabilities, 0, 1, 2, 3, 4, 5, 6, 7),
                                       vec<Element<V>, 8>);
    p[2 * n + 1] = __builtin_convertvector(
        __builtin_shufflevector(probabilities, probabilities, 8, 9, 10, 11, 12, 13, 14, 15), vec<Element<V>, 8>);
  }

  // Nothing of the probabilities is left to compute after this point.
  __device__ __forceinline__ void settle() {
    for (auto& part : sum) part = opaque(part);
    for (auto& step : p) step = opaque(step);
  }

  // Sum over the row's two halves.
  __device__ float row_sum() const {
    const f32x2 parts = sum[0] + sum[1], halves = both_halves(parts[0] + parts[1]);
    return halves[0] + halves[1];
  }
  // Natural log of the sum of exp(scale * score).
  __device__ float log_sum_exp(float row_sum, float softmax_scale) const {
    const float anchor = softmax_scale == 0 ? 0.f : -minus_anchor[0] * __builtin_fabsf(softmax_scale);
    return row_sum == 0 ? -infinity : anchor + log2_raw(row_sum) * ln_2;
  }
};

}  // namespace rocke

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
  f32x2 c;               // the factor twice, in a pair of scalar registers as packed instructions take it
  f32x16 minus_anchor;   // 16 copies: an MFMA operand
  float limit;           // how far a score may be above the anchor; -inf until the row has seen a key, NaN: see move_anchor
  float shrink;          // what the output still has to be multiplied by, for the last move of the anchor
  f32x2 sum[2];          // of the probabilities of the lane's half, in four parts
  vec<Element<V>, 8> p[Tiling<V>::pv_steps];  // probabilities of the previous tile, the B operand of P V

  __device__ explicit OnlineSoftmax(float softmax_scale)
      : c(opaque_scalar(
            f32x2(uniform(softmax_scale == 0 ? 1.f : min(__builtin_fabsf(softmax_scale) * log2_e, float32_max))))),
        minus_anchor(0.f), limit(-infinity), shrink(1.f), sum{0.f, 0.f} {}

  // In units of q.k: 2**8 keeps a probability exact in fp32 and finite in fp16. Zero makes the anchor the maximum itself.
  __device__ float lazy_limit() const { return V::lazy_rescale ? 8.f / c[0] : 0.f; }

  // What a tile's scores lose when their anchor should rise by `rise`, and by rounding rises by `shift`.
  //
  // That is `shift`, so that all tiles share one anchor, unless exp would tell the two apart. Then the row's maximum could end up
  // so far below the anchor that every probability vanishes, or so far above that one overflows; it becomes zero instead. The
  // tiles' anchors then differ by less than their scores' own rounding.
  __device__ float drop(float rise, float shift) const {
    return __builtin_fabsf(rise - shift) * c[0] <= 1 ? shift : rise;
  }

  // Moves the anchors of rows with a score above their limit; scores are relative to the anchor before and after.
  //
  // The output lags one tile behind: it must not shrink before the product of the previous tile, which has the old anchor, is
  // added. So a move leaves `shrink` behind and a limit of NaN, which no score is below: the next tile comes here in any case,
  // and there the output shrinks. One vote and one branch a tile, and no state beside it.
  template <int blocks>
  __device__ __forceinline__ void move_anchor(f32x16 (&scores)[2], f32x16 (&o)[blocks]) {
    float top = maximum(scores);
    if (__builtin_expect(any_lane(!(top <= limit)), false)) {
      shrink_output(o);
      const f32x2 halves = both_halves(top);
      top = max2(halves[0], halves[1]);
      const bool first = limit == -infinity, moves = top > (first ? -infinity : lazy_limit());
      const float rise = moves ? top : 0.f;
      const float new_minus_anchor = minus_anchor[0] - rise, shift = minus_anchor[0] - new_minus_anchor;
      minus_anchor = opaque(f32x16(new_minus_anchor));  // a block of registers, not a value to be spread at each use
      const float lost = drop(rise, shift);
      scores[0] -= lost;
      scores[1] -= lost;
      shrink = first ? 1.f : exp2_raw(-shift * c[0]);  // nothing is accumulated before the first
      sum[0] *= shrink;
      sum[1] *= shrink;
      limit = first && !moves ? -infinity : first || !moves ? lazy_limit() : __builtin_nanf("");
    }
  }
  template <int blocks>
  __device__ __forceinline__ void shrink_output(f32x16 (&o)[blocks]) const {
    // A member used inside the lambda keeps the whole structure in memory, and so does one that is only spread (D <= 32).
    const float factor = opaque(shrink);
    static_for<0, blocks>([&](auto d) { o[d] *= factor; });
  }

  // Probabilities of a block of 32 keys, in place: all of its 16 scores, or some of them. Packed instructions and conversions
  // take pairs.
  template <int first = 0, int end = 8>
  __device__ __forceinline__ void scale(f32x16& scores) const {
    const f32x2 factor = c;
    static_for<first, end>([&](auto i) {
      constexpr int r = 2 * i;
      const f32x2 pair = f32x2{scores[r], scores[r + 1]} * factor;
      scores[r] = pair[0], scores[r + 1] = pair[1];
    });
  }
  template <int first = 0, int end = 16>
  __device__ __forceinline__ void exponentiate(f32x16& scores) const {
    static_for<first, end>([&](auto r) {
      constexpr int element = r;
      scores[element] = exp2_raw(scores[element]);
    });
  }
  __device__ __forceinline__ void add(const f32x16& probabilities) {
    static_for<0, 8>([&](auto i) {
      constexpr int r = 2 * i;
      sum[i % 2] += f32x2{probabilities[r], probabilities[r + 1]};
    });
  }
  template <int n, int first = 0, int end = 8>
  __device__ __forceinline__ void pack(const f32x16& probabilities) {
    static_for<first, end>([&](auto i) {
      constexpr int r = 2 * i, step = 2 * n + i / 4;
      const auto pair = __builtin_convertvector(f32x2{probabilities[r], probabilities[r + 1]}, vec<Element<V>, 2>);
      p[step][r % 8] = pair[0], p[step][r % 8 + 1] = pair[1];
    });
  }

  // Nothing of the probabilities is left to compute after this point.
  __device__ __forceinline__ void settle() {
    static_for<0, 2>([&](auto i) { sum[i] = opaque(sum[i]); });
    static_for<0, Tiling<V>::pv_steps>([&](auto i) { p[i] = opaque(p[i]); });
  }

  // Sum over the row's two halves.
  __device__ float row_sum() const {
    // The two elements by a scalar addition: packed, with its operands' halves turned round, it is one that gfx950 gets wrong
    // while matrix instructions are under way (tests/kernels/test_hazards.py).
    const f32x2 parts = sum[0] + sum[1], halves = both_halves(opaque(parts[0]) + parts[1]);
    return halves[0] + halves[1];
  }
  // Natural log of the sum of exp(scale * score).
  __device__ float log_sum_exp(float row_sum, float softmax_scale) const {
    const float anchor = softmax_scale == 0 ? 0.f : -minus_anchor[0] * __builtin_fabsf(softmax_scale);
    return row_sum == 0 ? -infinity : anchor + log2_raw(row_sum) * ln_2;
  }
};

}  // namespace rocke

// The running softmax of a row, without its division.
//
// Scores stay in the units of q.k; the scale enters once, as the factor c = |softmax_scale| log2(e) of (score - anchor): never
// as score * c - anchor * c, which loses all digits when the scores are large.
#pragma once
#include "common/math.h"
#include "common/static_for.h"
#include "isa/float.h"
#include "isa/lane.h"
#include "parts/anchor.h"
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

// Of a block of 32 keys alone.
__device__ __forceinline__ float maximum(const f32x16 (&scores)[1]) {
  float top = scores[0][0];
  static_for<0, 7>([&](auto i) {
    constexpr int r = 2 * i + 1;
    top = max3(top, scores[0][r], scores[0][r + 1]);
  });
  return max2(top, scores[0][15]);
}

// Anchor: one of parts/anchor.h. blocks: of 32 keys, which a step of the loop takes together.
template <class V, class Anchor, int blocks>
struct OnlineSoftmax {
  f32x2 c;        // the factor twice, in a pair of scalar registers as packed instructions take it
  Anchor anchor;
  // How far a score may be above the anchor before it moves. A row is in one of three states, told apart by one comparison,
  // score <= limit, which the loop votes on:
  //
  //   limit         the row                          what the next tile does
  //   -infinity     has seen no key                  any score sets the anchor
  //   a number      has seen keys                    a score above the limit moves the anchor
  //   NaN           moved its anchor a tile before   comes to the rare path whatever its scores are, where the output shrinks
  //
  // The third only exists if the output lags: one vote and one branch a tile, and no state beside it.
  float limit;
  f32x2 sum[2];                           // of the probabilities of the lane's half, in four parts
  vec<Element<V>, 8> p[2 * blocks];       // probabilities of the last step, the B operand of P V

  __device__ explicit OnlineSoftmax(float softmax_scale)
      : c(opaque_scalar(
            f32x2(uniform(softmax_scale == 0 ? 1.f : min(__builtin_fabsf(softmax_scale) * log2_e, float32_max))))),
        limit(-infinity), sum{0.f, 0.f} {}

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
  template <int d_tiles>
  __device__ __forceinline__ void move_anchor(f32x16 (&scores)[blocks], f32x16 (&o)[d_tiles]) {
    float top = maximum(scores);
    if (__builtin_expect(any_lane(!(top <= limit)), false)) {
      if constexpr (Anchor::output_lags) shrink_output(o);
      const f32x2 halves = both_halves(top);
      top = max2(halves[0], halves[1]);
      const bool first = limit == -infinity, moves = top > (first ? -infinity : Anchor::output_lags ? lazy_limit() : limit);
      const float rise = moves ? top : 0.f, before = anchor.value(), moved = before - rise, shift = before - moved;
      anchor.set(moved);
      const float lost = drop(rise, shift);
      static_for<0, blocks>([&](auto n) { scores[n] -= lost; });
      const float shrink = first ? 1.f : exp2_raw(-shift * c[0]);  // nothing is accumulated before the first
      sum[0] *= shrink;
      sum[1] *= shrink;
      if constexpr (Anchor::output_lags) {
        anchor.shrink = shrink;
        limit = first && !moves ? -infinity : first || !moves ? lazy_limit() : __builtin_nanf("");
      } else {
        static_for<0, d_tiles>([&](auto d) { o[d] *= shrink; });
        limit = moves ? lazy_limit() : limit;
      }
    }
  }
  template <int d_tiles>
  __device__ __forceinline__ void shrink_output(f32x16 (&o)[d_tiles]) const {
    // A member used inside the lambda keeps the whole structure in memory, and so does one that is only spread (D <= 32).
    const float factor = opaque(anchor.shrink);
    static_for<0, d_tiles>([&](auto d) { o[d] *= factor; });
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
    static_for<0, 2 * blocks>([&](auto i) { p[i] = opaque(p[i]); });
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
    const float top = softmax_scale == 0 ? 0.f : -anchor.value() * __builtin_fabsf(softmax_scale);
    return row_sum == 0 ? -infinity : top + log2_raw(row_sum) * ln_2;
  }
};

}  // namespace rocke

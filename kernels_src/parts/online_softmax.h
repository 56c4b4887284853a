// The running softmax of a row, without its division, for a loop in which scores, softmax and output follow each other: a tile's
// maximum is known before its weights are computed.
#pragma once
#include "common/math.h"
#include "common/static_for.h"
#include "isa/lane.h"
#include "parts/anchor.h"
#include "parts/maximum.h"
#include "tile/kv_layout.h"

namespace rocke {

// Anchor: one of parts/anchor.h. blocks: of 32 keys, which a step of the loop takes together.
template <class V, class Anchor, int blocks>
struct OnlineSoftmax : AnchoredRow<Anchor> {
  using Row = AnchoredRow<Anchor>;
  using Row::c, Row::limit;  // how far a score may be above the anchor before it moves

  f32x2 sum[blocks];                 // of the probabilities of the lane's half, in two parts a block
  vec<Element<V>, 8> p[2 * blocks];  // probabilities of the last step, the B operand of P V

  __device__ explicit OnlineSoftmax(float softmax_scale) : Row(softmax_scale), sum{} {}

  // In units of q.k: 2**8 keeps a probability exact in fp32 and finite in fp16. Zero makes the anchor the maximum itself.
  __device__ float lazy_limit() const { return V::lazy_rescale ? uniform(8.f / c[0]) : 0.f; }

  // Moves the anchors of rows with a score above their limit; scores are relative to the anchor before and after.
  template <int d_tiles>
  __device__ __forceinline__ void move_anchor(f32x16 (&scores)[blocks], f32x16 (&o)[d_tiles]) {
    const float top = maximum(scores);
    if (__builtin_expect(any_above(top), false)) raise_anchor(top, scores, o);
  }
  // The two halves of it, for a loop that finds the lanes' maximum and votes some instructions before it moves them.
  __device__ __forceinline__ bool any_above(float top) const { return any_lane(!(top <= limit)); }
  template <int d_tiles>
  __device__ __forceinline__ void raise_anchor(float top, f32x16 (&scores)[blocks], f32x16 (&o)[d_tiles]) {
    top = larger_half(top);
    const bool moves = top > limit;
    const auto move = Row::raise_anchor(moves ? top : 0.f);
    static_for<0, blocks>([&](auto n) { scores[n] -= move.lost; });
    static_for<0, blocks>([&](auto n) { sum[n] *= move.shrink; });
    static_for<0, d_tiles>([&](auto d) { o[d] *= move.shrink; });
    limit = moves ? lazy_limit() : limit;
  }

  // Probabilities of a block of 32 keys, in place.
  __device__ __forceinline__ void scale(f32x16& scores) const {
    const f32x2 factor = c;
    static_for<0, 8>([&](auto i) {
      constexpr int r = 2 * i;
      const f32x2 pair = f32x2{scores[r], scores[r + 1]} * factor;
      scores[r] = pair[0], scores[r + 1] = pair[1];
    });
  }
  __device__ __forceinline__ void exponentiate(f32x16& scores) const {
    static_for<0, 16>([&](auto r) {
      constexpr int element = r;
      scores[element] = exp2_raw(scores[element]);
    });
  }
  __device__ __forceinline__ void add(const f32x16& probabilities) {
    static_for<0, 8>([&](auto i) {
      constexpr int r = 2 * i;
      sum[i % blocks] += f32x2{probabilities[r], probabilities[r + 1]};
    });
  }
  // Pairs of block n, all or some of them.
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
    static_for<0, blocks>([&](auto i) { sum[i] = opaque(sum[i]); });
    static_for<0, 2 * blocks>([&](auto i) { p[i] = opaque(p[i]); });
  }

  // Sum over the row's two halves.
  __device__ float row_sum() const {
    // The two elements by a scalar addition: packed, with its operands' halves turned round, it is one that gfx950 gets wrong
    // while matrix instructions are under way (tests/kernels/test_hazards.py).
    f32x2 parts = sum[0];
    static_for<1, blocks>([&](auto n) { parts += sum[n]; });
    const f32x2 halves = both_halves(opaque(parts[0]) + parts[1]);
    return halves[0] + halves[1];
  }
};

}  // namespace rocke

// The softmax of a loop that spreads it over clusters of matrix instructions.
//
// Weights are computed before anyone looks at their scores. The scores stay in registers until the tile's sum is there, and that
// sum tells whether the anchor was too low: an exp that overflowed makes it infinite. Then, rarely, the anchor moves and the
// weights are computed again. The sum is needed anyway, so looking costs one comparison a tile in place of 16 maxima.
#pragma once
#include "isa/wait.h"
#include "parts/anchor.h"
#include "parts/maximum.h"
#include "parts/slots.h"
#include "tile/kv_layout.h"

namespace rocke {

template <class V>
struct SpreadSoftmax : AnchoredRow<OperandAnchor> {
  float weight[16];         // of the block of 32 keys at work
  f32x2 part[2];            // sums of a tile's weights of the lane's half, in four parts,
  float tile_sum, sum;      // in one, and of all tiles before
  vec<Element<V>, 8> p[4];  // a tile's probabilities, the B operand of P V

  __device__ explicit SpreadSoftmax(float softmax_scale) : AnchoredRow(softmax_scale), sum(0.f) {}

  // Voted on is the sum of a lane's 32 weights. At 2**13 they add up to no more than 32 weights of 2**8, which is what looking at
  // them one by one would allow, and fp16 holds each. Without lazy rescale it is the largest score.
  static constexpr float bound = V::lazy_rescale ? 0x1p13f : 0.f;

  // The first tile's anchor is its maximum.
  __device__ __forceinline__ void set_anchor(f32x16 (&scores)[2]) {
    const float top = larger_half(maximum(scores));
    const bool seen = top > -infinity;
    const Move move = raise_anchor(seen ? top : 0.f);
    static_for<0, 2>([&](auto n) { scores[n] -= move.lost; });
    limit = seen ? bound : -infinity;
  }

  // One instruction of the softmax of block n of 32 keys. Results are opaque, else the vectoriser makes pairs of them. Pairs are
  // not: LLVM puts a wait state between a packed instruction and the assembly statement that opaque is.
  template <int n, char kind, int r>
  __device__ __forceinline__ void step(const f32x16& scores) {
    constexpr int chain = r / 2 % 2, half = r % 2;
    if constexpr (kind == 'm') weight[r] = opaque(scores[r] * c[0]);
    if constexpr (kind == 'M') set_pair<r>(f32x2{scores[r], scores[r + 1]} * c);
    if constexpr (kind == 'e') weight[r] = opaque(exp2_raw(V::scaled_query ? scores[r] : weight[r]));
    if constexpr (kind == 'c') {
      const auto pair = __builtin_convertvector(f32x2{weight[r], weight[r + 1]}, vec<Element<V>, 2>);
      p[2 * n + r / 8][r % 8] = pair[0], p[2 * n + r / 8][r % 8 + 1] = pair[1];
    }
    // The first four weights of a tile are the partial sums, at no cost.
    constexpr bool starts = n == 0 && r < 8;
    if constexpr (kind == 'a') part[chain][half] = opaque((starts ? weight[r - 4] : part[chain][half]) + weight[r]);
    if constexpr (kind == 'A')
      part[chain] = (starts ? f32x2{weight[r - 4], weight[r - 3]} : part[chain]) + f32x2{weight[r], weight[r + 1]};
    if constexpr (kind == 't') part[0][r] = opaque(part[0][r] + part[1][r]);
    if constexpr (kind == 'T') part[0] += part[1];
    if constexpr (kind == 's') tile_sum = opaque(part[0][0] + part[0][1]);
  }
  template <int r>
  __device__ __forceinline__ void set_pair(f32x2 pair) {
    weight[r] = pair[0], weight[r + 1] = pair[1];
  }

  // What stands before MFMA i of a cluster, i = mfmas after the last.
  template <int n, int mfmas, int i>
  __device__ __forceinline__ void steps_before(const f32x16& scores) {
    constexpr const Slots& slots = Order<V, n, mfmas>::slots;
    static_for<slots.begin[i], slots.begin[i + 1]>([&](auto k) {
      constexpr VectorStep now = Order<V, n, mfmas>::slots.steps[k];
      step<n, now.kind, now.element>(scores);
      schedule_fence();
    });
  }
  // All of it, beside no MFMA.
  template <int n>
  __device__ __forceinline__ void weigh(const f32x16& scores) {
    steps_before<n, 0, 0>(scores);
  }
  // Nothing of the weights is left to compute after this point.
  __device__ __forceinline__ void settle() {
    static_for<0, 2>([&](auto i) { part[i] = opaque(part[i]); });
    static_for<0, 4>([&](auto i) { p[i] = opaque(p[i]); });
  }

  // A tile's sum joins the row's, unless some row must move its anchor: to the tile's maximum. Then the tile's weights are
  // computed again, for the other rows to the same bits. `next`: scores of another tile that are relative to the anchor.
  template <int d_tiles, class... Next>
  __device__ __forceinline__ void take_in(f32x16 (&o)[d_tiles], f32x16 (&scores)[2], Next&... next) {
    const float voted = V::lazy_rescale ? tile_sum : maximum(scores);
    if (__builtin_expect(any_lane(!(voted <= limit)), false)) {
      const float top = larger_half(V::lazy_rescale ? maximum(scores) : voted);
      // A row that has seen no key comes here with every tile. As long as a tile is hidden from it, that costs the maximum.
      const bool moves = limit == -infinity ? top > -infinity : larger_half(voted) > limit;
      if (any_lane(moves)) {
        const Move move = raise_anchor(moves ? top : 0.f);
        limit = moves ? bound : limit;
        const auto follow = [&](f32x16(&tile)[2]) { static_for<0, 2>([&](auto n) { tile[n] -= move.lost; }); };
        follow(scores);
        (follow(next), ...);
        sum *= move.shrink;
        static_for<0, d_tiles>([&](auto d) { o[d] *= move.shrink; });
        weigh<0>(scores[0]);
        weigh<1>(scores[1]);
        settle();
      }
    }
    sum += tile_sum;
  }

  // Sum over the row's two halves.
  __device__ float row_sum() const {
    const f32x2 halves = both_halves(sum);
    return halves[0] + halves[1];
  }
};

}  // namespace rocke

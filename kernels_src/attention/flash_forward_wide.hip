// Flash attention, forward, for head dims past 128: the same work, layouts and variants as flash_forward.hip.
//
// Q and the accumulator of 32 rows take up to 192 of a wave's 256 registers. The rest holds the scores of two blocks of 32
// keys, so the loop looks one block ahead: beside the MFMAs of S(i + 1) = K Q^T and of O += P(i) V stands the softmax of block
// i, and what must be known of S(i + 1) before its own (parts/lookahead.h has the table). Each MFMA takes one fragment of K or
// V, which is read from LDS a few MFMAs before. All waves run alike. A barrier a tile stands among MFMAs whose fragments are
// there, so that the two waves of a SIMD keep its matrix pipe busy over it.
#pragma once
#include "isa/mfma.h"
#include "isa/wait.h"
#include "parts/forward.h"
#include "parts/lookahead.h"

namespace rocke {

template <int bytes>
__device__ __forceinline__ LdsBytes parked_query() {
  __shared__ __attribute__((aligned(16))) char memory[bytes];
  return (LdsBytes)(LdsPointer<void>)memory;
}

template <class V>
struct WideRowBlock {
  using T = Tiling<V>;
  using Kv = KvPipeline<V>;
  using Fragment = vec<Element<V>, 8>;
  using Softmax = OnlineSoftmax<V, ValueAnchor, 1>;
  static_assert(V::head_dim > 128 && !V::streaming, "128 columns and less have a faster kernel");
  static_assert(V::block_n == keys_per_tile, "block_n: 64");

  static constexpr int qk = T::qk_steps, d_tiles = T::d_tiles, pv = 2 * d_tiles;  // MFMAs of a block of 32 keys
  using Slots = LookaheadSlots<qk, d_tiles>;

  Kv kv;
  Softmax softmax;
  Mask<V> mask;
  KeyRange keys;
  Fragment q[qk];
  f32x16 o[d_tiles];
  f32x16 scores[2][1];  // of the two blocks of a tile, by turns of this one and the next
  float top;            // of the block that comes next

  // A turn of the loop is a tile, with a slot for each MFMA:
  //
  //   Q K of its second block | P V of its first | Q K of the next tile's first block | P V of its second block
  //
  // Slot f of a turn takes fragment f; numbers from `turn` on are the next turn's. A fragment is read `ahead` slots before its
  // own, into the registers of the one that was just used.
  static constexpr int half_turn = qk + pv, turn = 2 * half_turn;
  static constexpr int ahead = d_tiles > 7 ? 2 : 4;  // as registers allow
  static_assert(2 * turn % ahead == 0, "a fragment keeps its registers from the end of two turns to the start of the next two");
  Fragment fragment[ahead];

  // Past 224 columns three fragments of Q lie in LDS, in a place of the wave's own, and come from there with those of K: they
  // give back 12 registers where Q K begins, which has the most alive.
  static constexpr int parked = d_tiles > 7 ? 3 : 0, first_parked = qk / 2, fragment_bytes = wave_lanes * sizeof(Fragment);
  static_assert(parked == 0 || first_parked >= 4, "none is under way when the loop ends");
  static constexpr bool is_parked(int g) { return g >= first_parked && g < first_parked + parked; }
  uint32 q_lane;  // LDS address of the lane's part of the first of them
  __device__ __forceinline__ void park_query(int wave) {
    if constexpr (parked > 0) {
      q_lane = uint32(parked_query<T::waves * parked * fragment_bytes>()) + wave * parked * fragment_bytes +
               lane_id() * sizeof(Fragment);
      static_for<0, parked>(
          [&](auto i) { lds_write<i * fragment_bytes>(q_lane, bit_cast<vec<uint32, 4>>(q[first_parked + i])); });
    }
  }

  template <int parity, int f>
  __device__ __forceinline__ Fragment& place() {
    return fragment[(parity * turn + f) % ahead];
  }
  template <int parity, int f>
  __device__ __forceinline__ void read() {
    constexpr int tile = parity + f / turn, block = f % turn / half_turn, g = f % half_turn;
    if constexpr (g < qk)
      place<parity, f>() = kv.template read_k_fragment<tile + block, 1 - block, g>();
    if constexpr (is_parked(g))
      q[g] = lds_read_b128<(g - first_parked) * fragment_bytes, Element<V>>(q_lane);
    if constexpr (g >= qk)
      place<parity, f>() = kv.template read_v_fragment<tile, 2 * block + (g - qk) / d_tiles, (g - qk) % d_tiles>();
  }
  // LDS reads for slots `first` to `end` - 1.
  static constexpr int reads(int first, int end) {
    int n = 0;
    for (int f = first; f < end; f++) n += f % half_turn < qk && !is_parked(f % half_turn) ? 1 : 2;
    return n;
  }
  // Fragment f has arrived. Behind it are under way those that follow, up to `end` at most.
  template <int parity, int f, int end = f + ahead>
  __device__ __forceinline__ Fragment take() {
    wait_counters<any_vm, reads(f + 1, min(f + ahead, end))>();
    constexpr int g = f % half_turn;
    if constexpr (is_parked(g)) q[g] = opaque(q[g]);
    Fragment& taken = place<parity, f>();
    taken = opaque(taken);
    return taken;
  }

  // Two facts in one barrier: V of this tile and K of the next are in LDS, for all waves; and all waves have read K of this
  // tile and V of the one before, whose slots the next ones then take. It stands where V would be read first.
  static constexpr bool meets(int f) { return f + ahead == qk; }
  __device__ __forceinline__ void meet() {
    wait_counters<0, 0>();
    barrier();
    kv.forget_addresses();
  }
  // V of the next tile, and K of the one after that. One request in three slots: the path to memory takes one of each wave in 128
  // cycles, in 256 where rows do not start at a line of the caches.
  template <int parity, int f>
  __device__ __forceinline__ void request_share() {
    constexpr int groups = T::column_groups, since = f - qk, g = since / 3;
    if constexpr (since >= 0 && since % 3 == 0 && g < 2 * groups) {
      if constexpr (g < groups)
        kv.template request_v_group<parity + 1, g>();
      else
        kv.template request_k_group<parity, g - groups>();
    }
  }
  // What stands in slot f beside its MFMA, all in this order.
  template <int parity, int f, class Work>
  __device__ __forceinline__ void beside(Work&& work) {
    schedule_fence();
    if constexpr (!meets(f)) read<parity, f + ahead>();
    work();
    request_share<parity, f>();
    schedule_fence();
    if constexpr (meets(f)) {
      meet();
      read<parity, f + ahead>();
    }
  }

  template <int i>
  __device__ __forceinline__ void softmax_share(f32x16& s) {
    scale_each<Slots::scaled(i - 1), Slots::scaled(i)>(s, softmax.c[0]);
    exponentiate_each<Slots::exponentiated(i - 1), Slots::exponentiated(i)>(s);
    sum_each<Slots::summed(i - 1), Slots::summed(i)>(s, softmax.sum[0]);
    softmax.template pack<0, Slots::packed(i - 1), Slots::packed(i)>(s);
  }
  template <int i>
  __device__ __forceinline__ void anchor_share(f32x16& s) {
    add_to_each<Slots::anchored(i - 1), Slots::anchored(i)>(s, softmax.anchor.value());
    compare_each<Slots::compared(i - 1), Slots::compared(i)>(s, top);
  }
  // A block's way from the product to the masks; `key` is the first of its tile.
  template <int n>
  __device__ __forceinline__ void modify_and_hide(int key) {
    modify_scores<V>(scores[n], key + n * 32);
    if (key >= keys.masked_from) mask.hide_after_last(scores[n], key + n * 32);
    if constexpr (V::left_bound)
      if (key < keys.unmasked_from) mask.hide_before_first(scores[n], key + n * 32);
  }

  // Block n of a tile: its softmax and its P V, and the scores of the block after it, in the tile of `key_after`.
  template <int parity, int n>
  __device__ __forceinline__ void step(int key_after) {
    constexpr int first = n * half_turn, first_pv = first + qk;
    f32x16 &now = scores[n][0], &after = scores[1 - n][0];
    static_for<0, qk>([&](auto i) {
      constexpr int f = first + i;
      after = mfma_32x32x16(take<parity, f>(), q[i], i == 0 ? f32x16(0.f) : after);
      beside<parity, f>([&] { softmax_share<i>(now); });
    });
    softmax.p[0] = opaque(softmax.p[0]);
    static_for<0, d_tiles>([&](auto d) {
      constexpr int f = first_pv + d;
      o[d] = mfma_32x32x16(take<parity, f>(), softmax.p[0], o[d]);
      beside<parity, f>([&] { softmax_share<qk + d>(now); });
    });
    softmax.settle();
    after = opaque(after);
    modify_and_hide<1 - n>(key_after);
    bool moves = false;
    static_for<0, d_tiles>([&](auto d) {
      constexpr int f = first_pv + d_tiles + d;
      o[d] = mfma_32x32x16(take<parity, f>(), softmax.p[1], o[d]);
      beside<parity, f>([&] {
        anchor_share<d>(after);
        if constexpr (d == d_tiles - 1) moves = softmax.any_above(top);
      });
    });
    if (__builtin_expect(moves, false)) softmax.raise_anchor(top, scores[1 - n], o);
  }

  // The scores of the first block, as those of the second half of a turn before the first.
  __device__ __forceinline__ void first_block() {
    constexpr int first = half_turn, end = first + qk;
    f32x16& s = scores[0][0];
    static_for<first, first + ahead>([&](auto f) { read<1, f>(); });
    static_for<0, qk>([&](auto i) {
      constexpr int f = first + i;
      s = mfma_32x32x16(take<1, f, end>(), q[i], i == 0 ? f32x16(0.f) : s);
      schedule_fence();
      if constexpr (f + ahead < end) read<1, f + ahead>();
    });
    static_for<0, ahead>([&](auto f) { read<0, f>(); });
    s = opaque(s);
    modify_and_hide<0>(keys.first);
    static_for<0, d_tiles>([&](auto i) { anchor_share<i>(s); });
    if (softmax.any_above(top)) softmax.raise_anchor(top, scores[0], o);
  }

  // Two turns a pass, for their LDS slots are compile-time choices; a tile past the end is hidden by the mask, and so is the
  // block that the last step looks ahead to. The compiler does not see that all lanes have the same end: without uniform() it
  // closes the loop by EXEC, while transposed reads need all lanes. One way into the loop and one way out, at its end: steps
  // before it or behind it, which would spare that block, cost hundreds of spills.
  template <class Query>
  __device__ __forceinline__ void run(int wave, const Query& query) {
    query.request(q);
    if constexpr (V::split_kv) {  // that block is in the next part
      keys.masked_from = min(keys.masked_from, keys.end);
      mask.last = min(mask.last, keys.end - 1 - 4 * (lane_id() / 32));
    }
    kv.template request_k<0>();
    kv.template request_k<1>();
    kv.template request_v<0>();
    schedule_fence();
    query.finish(q);
    park_query(wave);
    static_for<0, d_tiles>([&](auto d) { o[d] = 0.f; });
    kv.template wait_requests<2>();  // K of the first tile is there
    barrier();
    first_block();
    int key = keys.first;
    do {
      step<0, 0>(key);
      step<0, 1>(key + keys_per_tile);
      step<1, 0>(key + keys_per_tile);
      step<1, 1>(key + 2 * keys_per_tile);
      key += 2 * keys_per_tile;
    } while (key < uniform(keys.end));
    // Nobody takes the fragments that are under way: their registers are free when they have arrived.
    wait_counters<any_vm, 0>();
    static_for<0, ahead>([&](auto f) { fragment[f] = opaque(fragment[f]); });
    if constexpr (V::persistent) {
      // The requests past the end land before the next item's, and all waves have read the last tile.
      kv.template wait_requests<0>();
      barrier();
    }
  }
};

}  // namespace rocke

#define ROCKE_ATTENTION_FORWARD(entry) ROCKE_FORWARD_KERNEL(entry, rocke::WideRowBlock)

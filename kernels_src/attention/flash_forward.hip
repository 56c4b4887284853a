// Flash attention, forward: out = softmax(scale q k^T + mask) v for one block of 256 or 128 query rows of one head at a time.
//
// Eight or four waves of 32 rows. S^T = K Q^T puts a row's scores in one lane pair, so that the row maximum and sum are sums over
// registers, and P feeds the second MFMA without a shuffle (tile/kv_layout.h has the order of keys that this needs).
#pragma once
#include "isa/mfma.h"
#include "isa/wait.h"
#include "parts/forward.h"
#include "parts/spread_softmax.h"

namespace rocke {

template <class V>
struct RowBlock {
  using T = Tiling<V>;
  using Kv = KvPipeline<V>;
  using Softmax = SpreadSoftmax<V>;
  static_assert(!V::streaming && V::head_dim <= 128, "more columns do not fit the registers");

  Kv kv;
  Softmax softmax;
  Mask<V> mask;
  KeyRange keys;
  vec<Element<V>, 8> q[T::qk_steps];
  f32x16 scores[2][T::key_tiles];  // of this tile and the previous one
  f32x16 o[T::d_tiles];

  // The softmax of a tile is spread over two clusters of MFMAs: that of its first 32 keys beside P V of the tile before, that of
  // the others beside Q K of the tile after. Its order is fixed instruction by instruction (parts/slots.h).

  // S(t) = K(t) Q^T - anchor, and the second half of the softmax of tile t - 1.
  template <int parity, bool with_softmax>
  __device__ __forceinline__ void multiply_qk() {
    constexpr int mfmas = T::key_tiles * T::qk_steps;
    static_for<0, mfmas>([&](auto i) {
      constexpr int n = i / T::qk_steps, k = i % T::qk_steps;
      if constexpr (with_softmax) softmax.template steps_before<1, mfmas, i>(scores[1 - parity][1]);
      scores[parity][n] = mfma_32x32x16(kv.fragment[i], q[k], k == 0 ? start_of_scores(softmax.anchor) : scores[parity][n]);
      if constexpr (with_softmax) schedule_fence();
    });
    if constexpr (with_softmax) {
      softmax.template steps_before<1, mfmas, mfmas>(scores[1 - parity][1]);
      softmax.settle();
    }
  }
  // O += P(t-1) V(t-1), and the first half of the softmax of tile t.
  template <int parity, bool with_softmax>
  __device__ __forceinline__ void multiply_pv() {
    constexpr int mfmas = T::pv_steps * T::d_tiles;
    static_for<0, mfmas>([&](auto i) {
      constexpr int kk = i / T::d_tiles, d = i % T::d_tiles;
      if constexpr (with_softmax) softmax.template steps_before<0, mfmas, i>(scores[parity][0]);
      o[d] = mfma_32x32x16(kv.fragment[i], softmax.p[kk], o[d]);
      if constexpr (with_softmax) schedule_fence();
    });
    if constexpr (with_softmax) {
      softmax.template steps_before<0, mfmas, mfmas>(scores[parity][0]);
      softmax.settle();
    }
  }

  // `key` is that of the tile in slot 0 of the same turn of the ring: the distance of the others is taken off the bounds once.
  template <int slot>
  __device__ __forceinline__ void modify_and_mask(int key) {
    constexpr int distance = slot * keys_per_tile;
    f32x16(&tile)[T::key_tiles] = scores[slot % 2];
    modify_scores<V>(tile, key + distance);
    if (key >= keys.masked_from - distance) mask.hide_after_last(tile, opaque_scalar(key) + distance);
    if constexpr (V::left_bound)
      if (key < keys.unmasked_from - distance) mask.hide_before_first(tile, opaque_scalar(key) + distance);
  }

  template <int slot>
  __device__ __forceinline__ void first_step() {
    constexpr int parity = slot % 2;
    multiply_qk<parity, false>();
    static_for<0, T::d_tiles>([&](auto d) { o[d] = 0.f; });
    modify_and_mask<slot>(keys.first);
    softmax.set_anchor(scores[parity]);
    softmax.template weigh<0>(scores[parity][0]);
    softmax.settle();
    barrier();
    kv.template request_k<slot>();
    kv.template request_v<slot + T::ring - 1>();
    kv.template read_k<slot + 1>();
    kv.template wait<Kv::newest, Kv::k_fragments>();
  }

  // The barrier between two steps stands at the start: the loop's branch then runs beside the other group's MFMAs.
  template <int slot>
  __device__ __forceinline__ void step(int key) {
    constexpr int parity = slot % 2;
    barrier();
    multiply_qk<parity, true>();
    barrier();

    kv.template request_k<slot>();
    // Over the latency of these reads runs the vote. Not all of V with four blocks of columns: that would spill.
    constexpr int early = T::d_tiles < 4 ? Kv::v_fragments : 2;
    kv.template read_v<slot + T::ring - 1, 0, early>();
    modify_and_mask<slot>(key);
    softmax.take_in(o, scores[1 - parity], scores[parity]);
    kv.template read_v<slot + T::ring - 1, early, Kv::v_fragments>();
    kv.template wait<Kv::newest, Kv::v_fragments>();
    barrier();

    if constexpr (V::raised_priority) set_priority<1>();
    multiply_pv<parity, true>();
    if constexpr (V::raised_priority) set_priority<0>();
    barrier();

    kv.template request_v<slot + T::ring - 1>();
    kv.template read_k<slot + 1>();
    kv.template wait<Kv::newest, Kv::k_fragments>();
  }

  template <int slot>
  __device__ __forceinline__ void last_step() {
    constexpr int parity = slot % 2;
    barrier();
    softmax.template weigh<1>(scores[parity][1]);
    softmax.settle();
    softmax.take_in(o, scores[parity]);
    barrier();
    kv.template read_v<slot, 0, Kv::v_fragments>();
    kv.template wait_fragments<Kv::v_fragments>();  // V itself landed a phase ago; what is under way no one reads
    multiply_pv<parity, false>();
  }

  // Slots and register blocks are compile-time choices, so the loop is unrolled by the length of the ring, and the tiles are
  // rounded up to it: a tile past the end is hidden by the mask like any other key. One way into the loop and one way out, at
  // its end: with more, the register allocator spills at D = 128. No barrier at the end: another item's first requests go to
  // slots other than the one that the slower waves may still be reading.
  template <class Query>
  __device__ __forceinline__ void run(int wave, const Query& query) {
    const bool second_group = T::waves == 8 && wave >= 4;
    kv.template request_k<0>();
    schedule_fence();
    query.request(q);
    static_for<1, T::ring>([&](auto i) {
      kv.template request_k<i>();
      kv.template request_v<i - 1>();
    });
    kv.template wait_requests<Kv::newest>();  // K(0) and Q are there
    barrier();
    query.read(q);
    kv.template read_k<0>();
    kv.template wait<Kv::newest - 1, Kv::k_fragments>();  // and K(1), for all waves from the next barrier on
    query.finish(q);
    if (second_group) barrier();

    first_step<0>();
    static_for<1, T::ring>([&](auto slot) { step<slot>(keys.first); });
    constexpr int turn = T::ring * keys_per_tile;
    for (int key = keys.first + turn; key < keys.end; key += turn)
      static_for<0, T::ring>([&](auto slot) { step<slot>(key); });
    last_step<T::ring - 1>();
    // Columns past the head dim are dead now, and other values take their registers. LLVM sees to it that these wait for the last
    // matrix instruction, but counts along one of the two ways from here, the longer one.
    rest<mfma_result_states>();
    if (T::waves == 8 && !second_group) barrier();
  }
};

}  // namespace rocke

#define ROCKE_ATTENTION_FORWARD(entry) ROCKE_FORWARD_KERNEL(entry, rocke::RowBlock)

// Flash attention, forward, with registers to spare: the same work, layouts and variants as flash_forward.hip.
//
// That kernel keeps two tiles of scores and a whole tile of K or V in registers, so that softmax and products of different tiles
// run side by side. Here a tile of 64 keys is taken in two blocks of 32, each Q K, softmax and P V in turn; fragments of K and V
// come from LDS a few MFMAs ahead. All waves of the block run alike: the two that share a SIMD drift apart by themselves, so that
// one multiplies while the other exponentiates. Up to 128 columns it leaves more than 100 of a wave's 256 registers, for half as
// many cycles again on the timing model; past that (flash_forward_wide.hip is the faster one there) some 20.
#pragma once
#include "isa/mfma.h"
#include "isa/wait.h"
#include "parts/forward.h"

namespace rocke {

template <class V>
struct StreamingRowBlock {
  using T = Tiling<V>;
  using Fragment = vec<Element<V>, 8>;
  using Softmax = OnlineSoftmax<V, ValueAnchor, 1>;
  static constexpr int ahead = T::d_tiles > 6 ? 3 : 4;  // fragments on their way or in use, as registers allow
  static_assert(V::streaming && V::block_n == keys_per_tile, "block_n: 64");

  KvPipeline<V> kv;
  Softmax softmax;
  Mask<V> mask;
  KeyRange keys;
  Fragment q[T::qk_steps];
  f32x16 o[T::d_tiles];

  // use(i, fragment) for each of `count` fragments, `ahead` - 1 of which are being read meanwhile. A fragment is `reads` reads.
  template <int count, int reads, class Read, class Use>
  __device__ __forceinline__ static void stream(Read&& read, Use&& use) {
    Fragment fragment[ahead];
    static_for<0, min(ahead - 1, count)>([&](auto i) { fragment[i] = read(i); });
    static_for<0, count>([&](auto i) {
      if constexpr (i + ahead - 1 < count) fragment[(i + ahead - 1) % ahead] = read(Index<i + ahead - 1>{});
      wait_counters<any_vm, reads * min(ahead - 1, count - 1 - i)>();
      fragment[i % ahead] = opaque(fragment[i % ahead]);
      use(i, fragment[i % ahead]);
    });
  }

  // S = K Q^T - anchor for 32 keys.
  template <int slot, int n>
  __device__ __forceinline__ f32x16 multiply_qk() {
    f32x16 scores = start_of_scores(softmax.anchor);
    stream<T::qk_steps, 1>(
        [&](auto k) { return kv.template read_k_fragment<slot, n, k>(); },
        [&](auto k, Fragment key) { scores = mfma_32x32x16(key, q[k], scores); });
    return scores;
  }

  // O += P V for 32 keys.
  template <int slot, int n>
  __device__ __forceinline__ void multiply_pv() {
    constexpr int steps = T::pv_steps / T::key_tiles;
    stream<steps * T::d_tiles, 2>(
        [&](auto i) {
          constexpr int kk = n * steps + i / T::d_tiles, d = i % T::d_tiles;
          return kv.template read_v_fragment<slot, kk, d>();
        },
        [&](auto i, Fragment value) {
          constexpr int kk = i / T::d_tiles, d = i % T::d_tiles;
          o[d] = mfma_32x32x16(value, softmax.p[kk], o[d]);
        });
  }

  template <int slot, int n>
  __device__ __forceinline__ void block_of_keys(int key) {
    f32x16 scores[1] = {multiply_qk<slot, n>()};
    modify_scores<V>(scores, key + n * 32);
    if (key >= keys.masked_from) mask.hide_after_last(scores, key + n * 32);
    if constexpr (V::left_bound)
      if (key < keys.unmasked_from) mask.hide_before_first(scores, key + n * 32);
    softmax.move_anchor(scores, o);
    softmax.scale(scores[0]);
    softmax.exponentiate(scores[0]);
    softmax.add(scores[0]);
    softmax.template pack<0>(scores[0]);
    softmax.settle();
    multiply_pv<slot, n>();
  }

  // The barrier says two things: the tile is in LDS, for all waves; and all waves have read the tile before, whose slot the next
  // one then takes.
  template <int slot>
  __device__ __forceinline__ void step(int key) {
    kv.template wait_requests<0>();
    barrier();
    kv.forget_addresses();
    kv.template request_k<slot + 1>();
    kv.template request_v<slot + 1>();
    static_for<0, T::key_tiles>([&](auto n) { block_of_keys<slot, n>(key); });
  }

  // Tiles are rounded up to the two slots: one past the end is hidden by the mask. There is a first one: a block that sees no key
  // is not run. The compiler does not see that all lanes have the same end: without uniform() it closes the loop by EXEC, while
  // transposed reads need all lanes. The test stands at the end: at the start it costs ROCm 7.14 hundreds of spills.
  template <class Query>
  __device__ __forceinline__ void run(int, const Query& query) {
    query.request(q);
    kv.template request_k<0>();
    kv.template request_v<0>();
    schedule_fence();
    query.finish(q);
    static_for<0, T::d_tiles>([&](auto d) { o[d] = 0.f; });
    int key = keys.first;
    do {
      static_for<0, T::ring>([&](auto slot) { step<slot>(key + slot * keys_per_tile); });
      key += T::ring * keys_per_tile;
    } while (key < uniform(keys.end));
    if constexpr (V::persistent) {
      // The request past the end lands before the next item's, and all waves have read the last tile.
      kv.template wait_requests<0>();
      barrier();
    }
  }
};

}  // namespace rocke

#define ROCKE_ATTENTION_FORWARD(entry) ROCKE_FORWARD_KERNEL(entry, rocke::StreamingRowBlock)

// Flash attention, forward: out = softmax(scale q k^T + mask) v for one block of 256 query rows of one head at a time.
//
// Eight waves of 32 rows. S^T = K Q^T puts a row's scores in one lane pair, so that the row maximum and sum are sums over
// registers, and P feeds the second MFMA without a shuffle (tile/kv_layout.h has the order of keys that this needs).
#pragma once
#include "isa/mfma.h"
#include "isa/wait.h"
#include "parts/forward.h"

namespace rocke {

template <class V>
struct RowBlock {
  using T = Tiling<V>;
  using Kv = KvPipeline<V>;
  using Softmax = OnlineSoftmax<V>;

  Kv kv;
  Softmax softmax;
  Mask<V> mask;
  KeyRange keys;
  vec<Element<V>, 8> q[T::qk_steps];
  f32x16 scores[2][T::key_tiles];  // of this tile and the previous one
  f32x16 o[T::d_tiles];

  // S(t) = K(t) Q^T - anchor.
  template <int parity>
  __device__ __forceinline__ void multiply_qk() {
    static_for<0, T::key_tiles>([&](auto n) {
      f32x16 s = softmax.minus_anchor;
      static_for<0, T::qk_steps>([&](auto k) { s = mfma_32x32x16(kv.fragment[n * T::qk_steps + k], q[k], s); });
      scores[parity][n] = s;
    });
  }
  // O += P(t-1) V(t-1).
  __device__ __forceinline__ void multiply_pv() {
    static_for<0, T::pv_steps>([&](auto kk) {
      static_for<0, T::d_tiles>(
          [&](auto d) { o[d] = mfma_32x32x16(kv.fragment[kk * T::d_tiles + d], softmax.p[kk], o[d]); });
    });
  }

  // The softmax of a tile is spread over two MFMA clusters: this half goes beside P V of the tile before,
  template <int parity>
  __device__ __forceinline__ void begin_softmax() {
    softmax.scale(scores[parity][0]);
    softmax.scale(scores[parity][1]);
    softmax.exponentiate(scores[parity][0]);
  }
  // and this one beside Q K of the tile after.
  template <int parity>
  __device__ __forceinline__ void finish_softmax() {
    softmax.exponentiate(scores[parity][1]);
    softmax.add(scores[parity][0]);
    softmax.add(scores[parity][1]);
    softmax.template pack<0>(scores[parity][0]);
    softmax.template pack<1>(scores[parity][1]);
  }

  // `key` is that of the tile in slot 0 of the same turn of the ring: the distance of the others is taken off the bounds once.
  template <int slot>
  __device__ __forceinline__ void mask_and_anchor(int key) {
    constexpr int distance = slot * keys_per_tile;
    f32x16(&tile)[T::key_tiles] = scores[slot % 2];
    if (key >= keys.masked_from - distance) mask.hide_after_last(tile, opaque_scalar(key) + distance);
    if constexpr (V::left_bound)
      if (key < keys.unmasked_from - distance) mask.hide_before_first(tile, opaque_scalar(key) + distance);
    softmax.move_anchor(tile, o);
  }

  // Vector instructions between the MFMAs of a cluster, evenly: `mfmas` times one MFMA, its share of exp and of the others.
  template <int mfmas, int exps, int others, int pipeline>
  __device__ __forceinline__ static void interleave() {
    static_for<0, mfmas>([&](auto i) {
      schedule_group<schedule_mfma, 1, pipeline>();
      schedule_group<schedule_exp, (i + 1) * exps / mfmas - i * exps / mfmas, pipeline>();
      schedule_group<schedule_valu, (i + 1) * others / mfmas - i * others / mfmas, pipeline>();
    });
  }

  template <int slot>
  __device__ __forceinline__ void first_step() {
    constexpr int parity = slot % 2;
    multiply_qk<parity>();
    static_for<0, T::d_tiles>([&](auto d) { o[d] = 0.f; });
    mask_and_anchor<slot>(keys.first);
    begin_softmax<parity>();
    barrier();
    kv.template request_k<slot>();
    kv.template request_v<slot + T::ring - 1>();
    kv.template read_k<slot + 1>();
    kv.template wait<Kv::newest, Kv::k_fragments>();
    barrier();
  }

  template <int slot>
  __device__ __forceinline__ void step(int key) {
    constexpr int parity = slot % 2;
    multiply_qk<parity>();
    finish_softmax<1 - parity>();
    // What is not bound to the cluster sinks to where it is used, past the barrier and out of the shadow of the MFMAs.
    softmax.settle();
    interleave<T::key_tiles * T::qk_steps, 16, 32, 1>();
    barrier();

    kv.template request_k<slot>();
    mask_and_anchor<slot>(key);
    kv.template read_v<slot + T::ring - 1>();
    kv.template wait<Kv::newest, Kv::v_fragments>();
    barrier();

    set_priority<1>();
    multiply_pv();
    begin_softmax<parity>();
    static_for<0, T::key_tiles>([&](auto n) { scores[parity][n] = opaque(scores[parity][n]); });
    interleave<T::pv_steps * T::d_tiles, 16, 16, 2>();
    set_priority<0>();
    barrier();

    kv.template request_v<slot + T::ring - 1>();
    kv.template read_k<slot + 1>();
    kv.template wait<Kv::newest, Kv::k_fragments>();
    barrier();
  }

  template <int slot>
  __device__ __forceinline__ void last_step() {
    finish_softmax<slot % 2>();
    barrier();
    kv.template read_v<slot>();
    softmax.shrink_output(o);
    kv.template wait_fragments<Kv::v_fragments>();  // V itself landed a phase ago; what is under way no one reads
    multiply_pv();
  }

  // Slots and register blocks are compile-time choices, so the loop is unrolled by the length of the ring, and the tiles are
  // rounded up to it: a tile past the end is hidden by the mask like any other key. One way into the loop and one way out, at
  // its end: with more, the register allocator spills at D = 128. No barrier at the end: another item's first requests go to
  // slots other than the one that the slower waves may still be reading.
  __device__ __forceinline__ void run(int wave) {
    const bool second_group = wave >= waves_per_block / 2;
    kv.template request_k<0>();
    static_for<1, T::ring>([&](auto i) {
      kv.template request_k<i>();
      kv.template request_v<i - 1>();
    });
    kv.template wait_requests<Kv::newest>();  // K(0) is there
    barrier();
    kv.template read_k<0>();
    kv.template wait<Kv::newest - 1, Kv::k_fragments>();  // and K(1), for all waves from the next barrier on
    if (second_group) barrier();

    first_step<0>();
    static_for<1, T::ring>([&](auto slot) { step<slot>(keys.first); });
    constexpr int turn = T::ring * keys_per_tile;
    for (int key = keys.first + turn; key < keys.end; key += turn)
      static_for<0, T::ring>([&](auto slot) { step<slot>(key); });
    last_step<T::ring - 1>();
    if (!second_group) barrier();
  }
};

}  // namespace rocke

#define ROCKE_ATTENTION_FORWARD(entry) ROCKE_FORWARD_KERNEL(entry, rocke::RowBlock)

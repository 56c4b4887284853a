// Keys and values on their way from memory through LDS to registers.
//
// A ring of LDS slots each for K and V, filled by LDS DMA. Two groups of four waves run one phase apart, so that on each SIMD
// one wave computes while the other loads. Four waves, one on each SIMD, are a single group. What makes it safe, with t the tile
// and the phases of a step being
// QK(t) | load V(t-1) | PV(t-1) | load K(t+1), a barrier after each:
//   K(t + ring) is requested in the first load phase of step t: all waves have read K(t) one barrier earlier;
//   V(t + ring - 1) is requested in the second: all waves have read V(t - 1) one barrier earlier;
//   each load phase ends when all but the newest 2 (ring - 1) requests have landed, which is one barrier before the slower
//   group's data is read by the faster one.
#pragma once
#include "common/arguments.h"
#include "common/static_for.h"
#include "isa/buffer.h"
#include "isa/lane.h"
#include "isa/lds.h"
#include "isa/wait.h"
#include "parts/key_range.h"
#include "tile/kv_layout.h"

namespace rocke {

// The slots of the ring, one after the other. LDS reads are assembly (isa/lds.h) and reach every slot by an immediate.
template <int bytes>
__device__ __forceinline__ LdsBytes k_ring() {
  __shared__ __attribute__((aligned(16))) char memory[bytes];
  return (LdsBytes)(LdsPointer<void>)memory;
}
template <int bytes>
__device__ __forceinline__ LdsBytes v_ring() {
  __shared__ __attribute__((aligned(16))) char memory[bytes];
  return (LdsBytes)(LdsPointer<void>)memory;
}

// The keys or the values of one (batch entry, kv head), as a buffer that ends with the last valid row. A buffer holds less than
// 2**32 bytes; with wide_kv it moves along with the tiles instead.
template <class V>
struct KeyRows {
  using Offset = typename Choose<V::wide_kv, uint64, uint32>::type;
  const char* base;
  // Tiles that share an offset, each with a register of its own for what the lane adds to it: one scalar addition for two tiles,
  // or where registers are short one for each.
  static constexpr int sharing = V::head_dim > 128 ? 1 : 2;
  Offset bytes, stride;  // of all rows; of the tiles that share an offset
  Offset next;           // where those to request next start
  uint32 lane_offset[sharing][Tiling<V>::column_groups];

  __device__ KeyRows(const void* array, const Strides& strides, const Sequence& s, int kv_head, int first_key, int wave,
                     int lane) {
    base = (const char*)((const Element<V>*)array + element_offset(strides, s.batch, s.kv_token, kv_head));
    const Offset row_bytes = Offset(strides.token) * 2;
    bytes = s.seqlen_kv > 0 ? (s.seqlen_kv - 1) * row_bytes + V::head_dim * 2 : 0;
    stride = sharing * keys_per_tile * row_bytes;
    next = first_key * row_bytes;
    const int row = lane / 8 * lines_per_group + wave, column = lane % 8 * 8;
    static_for<0, Tiling<V>::column_groups>([&](auto g) {
      // Columns past the head dim belong to the next head: zeros are read instead.
      const uint32 offset = row * uint32(row_bytes) + column * 2;
      const bool inside = g * columns_per_line + column < V::head_dim;
      static_for<0, sharing>([&](auto tile) {
        lane_offset[tile][g] = inside ? offset + tile * keys_per_tile * uint32(row_bytes) : nowhere;
      });
    });
  }

  // A tile is requested a column group at a time, each into the lines of this wave; its last one moves on to the next tile.
  template <int line_bytes, int slot, int g>
  __device__ __forceinline__ void request_group(LdsBytes to, int wave) {
    constexpr int step = g * key_bytes_in_line;
    BufferResource buffer;
    uint32 offset = 0;
    if constexpr (V::wide_kv) {
      buffer = make_buffer(base + next, bytes_left());
    } else {
      // Past the end the offset stands at the size: every row is then out of range, without a sum that could wrap.
      buffer = make_buffer(base, bytes);
      offset = min(next, bytes);
    }
    static_for<0, Tiling<V>::lines_per_wave>([&](auto i) {
      constexpr int line = i * Tiling<V>::waves;  // and as many keys further on
      dma_b128_to_lds<step>(buffer, to + ((g * lines_per_group + line) * line_bytes - step) + wave * line_bytes,
                            lane_offset[slot % sharing][g], offset + uint32(stride) / (sharing * keys_per_tile) * line);
    });
    if constexpr (g == Tiling<V>::column_groups - 1 && slot % sharing == sharing - 1)
      next = opaque_scalar(next + stride);  // one counter, whatever the loop is unrolled by
  }

 private:
  // Of the buffer that moves along. In 32 bits: there is no scalar comparison of 64.
  __device__ uint32 bytes_left() const {
    constexpr int most = 0x7fffffff;
    const int64 left = bytes - next;
    const int high = int(left >> 32);
    return high < 0 ? 0 : high > 0 ? most : min(uint32(left), uint32(most));
  }
};

template <class V>
struct KvPipeline {
  using T = Tiling<V>;
  using Fragment = vec<Element<V>, 8>;
  static constexpr int ring = T::ring;
  static constexpr int newest = 2 * (ring - 1);  // tiles that may be under way at the end of a load phase
  static constexpr int requests_per_tile = T::column_groups * T::lines_per_wave;

  KeyRows<V> k, v;
  int wave;
  uint32 k_lane, v_lane;  // LDS addresses from which the lane reads
  // Operands of the next MFMA cluster: K as [32-key block][k-step], or V as [key step][32-column block].
  static constexpr int k_fragments = T::key_tiles * T::qk_steps, v_fragments = T::pv_steps * T::d_tiles;
  Fragment fragment[k_fragments > v_fragments ? k_fragments : v_fragments];

  __device__ KvPipeline(const Arguments& a, const Sequence& s, int kv_head, int first_key, int wave, int lane)
      : k(a.k, a.shape.k, s, kv_head, first_key, wave, lane),
        v(a.v, a.shape.v, s, kv_head, first_key, wave, lane),
        wave(wave),
        k_lane(uint32(k_ring<ring * T::k_slot_bytes>()) + k_lane_offset(lane)),
        v_lane(uint32(v_ring<ring * T::v_slot_bytes>()) + v_lane_offset(lane)) {}

  template <int slot, int g>
  __device__ __forceinline__ void request_k_group() {
    LdsBytes to = k_ring<ring * T::k_slot_bytes>() + slot % ring * T::k_slot_bytes;
    k.template request_group<k_line_bytes, slot, g>(to, wave);
  }
  template <int slot, int g>
  __device__ __forceinline__ void request_v_group() {
    LdsBytes to = v_ring<ring * T::v_slot_bytes>() + slot % ring * T::v_slot_bytes;
    v.template request_group<v_line_bytes, slot, g>(to, wave);
  }
  template <int slot>
  __device__ __forceinline__ void request_k() {
    static_for<0, T::column_groups>([&](auto g) { request_k_group<slot, g>(); });
  }
  template <int slot>
  __device__ __forceinline__ void request_v() {
    static_for<0, T::column_groups>([&](auto g) { request_v_group<slot, g>(); });
  }

  // The addresses of requests in LDS are sums with the wave's number. They are formed anew after this: kept over a loop, 16 of
  // them would fill the scalar registers.
  __device__ __forceinline__ void forget_addresses() { wave = opaque_scalar(wave); }

  // One fragment: of key block n and k-step k, in one read; of key step kk and column block d, in two.
  template <int slot, int n, int k>
  __device__ __forceinline__ Fragment read_k_fragment() const {
    return lds_read_b128<slot % ring * T::k_slot_bytes + k_fragment_offset(n, k), Element<V>>(k_lane);
  }
  template <int slot, int kk, int d>
  __device__ __forceinline__ Fragment read_v_fragment() const {
    constexpr int base = slot % ring * T::v_slot_bytes;
    const auto low = lds_read_transposed<base + v_fragment_offset(d, kk, 0), Element<V>>(v_lane);
    const auto high = lds_read_transposed<base + v_fragment_offset(d, kk, 1), Element<V>>(v_lane);
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
  }

  // All of a tile's K, and fragments of its V.
  template <int slot>
  __device__ __forceinline__ void read_k() {
    static_for<0, k_fragments>([&](auto i) {
      constexpr int n = i / T::qk_steps, k = i % T::qk_steps;
      fragment[i] = read_k_fragment<slot, n, k>();
    });
  }
  template <int slot, int first, int end>
  __device__ __forceinline__ void read_v() {
    static_for<first, end>([&](auto i) {
      constexpr int kk = i / T::d_tiles, d = i % T::d_tiles;
      fragment[i] = read_v_fragment<slot, kk, d>();
    });
  }

  // All but the newest `tiles` that this wave requested are in LDS.
  template <int tiles>
  __device__ __forceinline__ void wait_requests() {
    wait_counters<tiles * requests_per_tile, any_lgkm>();
  }
  // The fragments are in registers.
  template <int fragments>
  __device__ __forceinline__ void wait_fragments() {
    wait_counters<any_vm, 0>();
    pin_fragments<fragments>();
  }
  // Both: the end of a load phase.
  template <int tiles, int fragments>
  __device__ __forceinline__ void wait() {
    wait_counters<tiles * requests_per_tile, 0>();
    pin_fragments<fragments>();
  }

 private:
  // No use of a fragment moves above this place.
  template <int fragments>
  __device__ __forceinline__ void pin_fragments() {
    static_for<0, fragments>([&](auto i) { fragment[i] = opaque(fragment[i]); });
  }
};

}  // namespace rocke

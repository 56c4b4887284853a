// How a tile of 64 keys lies in LDS.
//
// The unit is a line: one x4 LDS DMA of a wave, 64 lanes x 16 bytes = 1 KiB. Line (g, w) holds columns 64 g .. 64 g + 63 of
// the eight keys w, w + 8, ..., w + 56, 128 bytes each; of eight waves, wave w brings it, of four also line
// w + 4. Lines are padded so that neither the row reads of K (ds_read_b128)
// nor the transposed reads of V (ds_read_b64_tr_b16) meet a bank conflict; tests/kernels/test_kv_layout.py does the arithmetic.
// Every address of a tile is one base register of the lane plus an immediate.
#pragma once
#include "common/math.h"

namespace rocke {

constexpr int keys_per_tile = 64;
constexpr int lines_per_group = 8;  // of 64 columns
constexpr int rows_per_wave = 32;
constexpr int columns_per_line = 64;
constexpr int key_bytes_in_line = columns_per_line * 2;
constexpr int k_line_bytes = 1024 + 16;
constexpr int v_line_bytes = 1024 + 64;
constexpr int lds_bytes_of_compute_unit = 163840;

template <class V>
struct Tiling {
  static constexpr int rows = V::block_m;  // of a workgroup
  static constexpr int waves = rows / rows_per_wave;
  static constexpr int lines_per_wave = lines_per_group / waves;  // of a column group of a tile
  static constexpr int column_groups = ceil_div(V::head_dim, columns_per_line);
  static constexpr int qk_steps = ceil_div(V::head_dim, 16);    // MFMA k-steps over the head dim
  static constexpr int d_tiles = ceil_div(V::head_dim, 32);     // 32-column blocks of the output
  static constexpr int key_tiles = keys_per_tile / 32;          // 32-key blocks of the scores
  static constexpr int pv_steps = keys_per_tile / 16;           // MFMA k-steps over the keys
  static constexpr int ring = 2 * V::block_n / keys_per_tile;   // LDS slots: two tiles of block_n keys
  static constexpr int k_slot_bytes = column_groups * lines_per_group * k_line_bytes;
  static constexpr int v_slot_bytes = column_groups * lines_per_group * v_line_bytes;
  static_assert(V::head_dim >= 8 && V::head_dim <= 256 && V::head_dim % 8 == 0, "head_dim: a multiple of 8 up to 256");
  static_assert(rows == 256 || (rows == 128 && !V::streaming), "block_m: 256, or 128 unless streaming");
  static_assert(V::block_n == 64 || V::block_n == 128, "block_n: 64 or 128");
  static constexpr int ring_bytes = ring * (k_slot_bytes + v_slot_bytes);
  static_assert(ring_bytes <= lds_bytes_of_compute_unit, "LDS of a gfx950 compute unit");
};

// Where a lane starts to read: K fragments hold key l % 32, columns 8 (l / 32)..+7 of each step.
__device__ __forceinline__ int k_lane_offset(uint32 lane) {
  const uint32 key = lane % 32;
  return (key % lines_per_group) * k_line_bytes + (key / lines_per_group) * key_bytes_in_line + (lane / 32) * 16;
}
// Key block n (32 keys), step k (16 columns).
__host__ __device__ constexpr int k_fragment_offset(int n, int k) {
  return n * (32 / lines_per_group) * key_bytes_in_line + (k / 4) * lines_per_group * k_line_bytes + (k % 4) * 32;
}

// V is the A operand transposed. Its keys are taken in the order in which the scores leave the first MFMA (register r of half
// h is key 8 (r / 4) + 4 h + r % 4), so that no lane ever needs the probabilities of another: band b = 0, 1 of step kk starts
// at key 16 kk + 8 b + 4 h.
__device__ __forceinline__ int v_lane_offset(uint32 lane) {
  const uint32 key = 4 * (lane / 32) + lane % 16 / 4;
  return key * v_line_bytes + (lane / 16 % 2) * 32 + (lane % 4) * 8;
}
__host__ __device__ constexpr int v_fragment_offset(int d, int kk, int band) {
  return (d / 2) * lines_per_group * v_line_bytes + (d % 2) * 64 + (2 * kk + band) * key_bytes_in_line;
}

}  // namespace rocke

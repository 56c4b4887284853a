// How a wave's 32 rows lie in LDS, on their way from memory to registers (Q) or back (the output).
//
// Memory moves in lines of 128 bytes. A lane that loads or stores its own row touches 32 of them a request, 64 cycles of the path
// to memory; here a request of 64 lanes x 16 bytes takes four rows, eight whole lines, 16 cycles. As for K (tile/kv_layout.h),
// LDS lines are padded so that reads by rows meet no bank conflict: line j holds rows j, j + 8, j + 16, j + 24, 128 bytes each,
// and once more their next 128 bytes. So a part of a row is 256 bytes, and a lane finds its row where it would find a key.
#pragma once
#include "tile/kv_layout.h"

namespace rocke {

constexpr int row_lines = 8;  // of a wave
constexpr int row_part_bytes = 256;
constexpr int row_area_bytes = row_lines * k_line_bytes;  // of a wave

// Rows pass through LDS where each is one token of one head, and where they fit beside the ring; with the eight waves that the
// registers of a compute unit hold, for the compiler gives a wave more of them where LDS leaves room for fewer.
template <class V>
constexpr bool rows_fit_lds = !V::streaming && !V::pack_gqa &&
                              (Tiling<V>::ring_bytes + Tiling<V>::waves * row_area_bytes) * (8 / Tiling<V>::waves) <=
                                  lds_bytes_of_compute_unit;

// Which of the line's rows, less j, and which bytes of their part a lane moves.
__device__ __forceinline__ int line_row(uint32 lane) { return lane / 8 % 4 * 8; }
__device__ __forceinline__ int line_byte(uint32 lane) { return lane / 32 * 128 + lane % 8 * 16; }

// Where the lane's row starts, 16 bytes on for the upper half of the wave; and how far on a byte of its part lies.
__device__ __forceinline__ int row_lane_offset(uint32 lane) { return k_lane_offset(lane); }
__host__ __device__ constexpr int row_byte_offset(int byte) { return byte / 128 * 512 + byte % 128; }

}  // namespace rocke

// How a grid of workgroups shares the rows of an array, in pieces of eight columns, each for one lane.
#pragma once
#include "common/math.h"
#include "common/rows.h"
#include "isa/lane.h"
#include "parts/columns.h"

namespace rocke {

constexpr int walk_lanes = 256;  // of a workgroup

// visit(row, column) for each piece. Neighbouring lanes take neighbouring columns, then rows; with rows_first it is rows, then
// columns, which suits arrays whose rows lie side by side in memory.
template <class Visit>
__device__ __forceinline__ void for_each_piece(const RowCount& count, int columns, bool rows_first, Visit&& visit) {
  const int64 rows = count_rows(count);
  const uint32 tile_rows = 1u << count.tile_log2;
  const uint32 pieces = ceil_div(columns, columns_per_lane), work = tile_rows * pieces;
  const int64 stride = int64(gridDim.x) * tile_rows;
  for (int64 base = int64(blockIdx.x) * tile_rows; base < rows; base += stride) {
    const RowIndex first = first_row(count, base);
    const uint32 here = min<int64>(tile_rows, rows - base);
    for (uint32 i = work_item_id(); i < work; i += walk_lanes) {
      const uint32 piece = rows_first ? i >> count.tile_log2 : i % pieces;
      const uint32 row = rows_first ? i & (tile_rows - 1) : i / pieces;
      if (row < here) visit(advance(count, first, row), int(piece) * columns_per_lane);
    }
  }
}

}  // namespace rocke

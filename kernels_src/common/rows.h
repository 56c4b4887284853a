// Rows of a strided array, numbered over three axes: what the copying and merging kernels walk over. The host chooses the
// order of the axes, so that neighbours in memory are neighbours in number; rocke_cupy/kernels/rows.py fills these.
#pragma once
#include "common/types.h"

namespace rocke {

// Where the rows and columns of one array lie, in bytes: any sign, any alignment, 0 for a broadcast axis.
struct RowStrides {
  int64 axis[3];  // outermost first
  int64 column;
};

struct RowCount {
  int32 count[3];
  int32 tile_log2;  // a workgroup takes 2**tile_log2 rows at a time
};

struct RowIndex {
  uint32 axis[3];
};

__device__ __forceinline__ int64 count_rows(const RowCount& n) { return int64(n.count[0]) * n.count[1] * n.count[2]; }

// The first row of a tile, the same for the whole workgroup: the only 64-bit division.
__device__ __forceinline__ RowIndex first_row(const RowCount& n, uint64 row) {
  const uint64 plane = row / uint32(n.count[2]);
  const uint32 outer = plane / uint32(n.count[1]);
  return {outer, uint32(plane - uint64(outer) * n.count[1]), uint32(row - plane * n.count[2])};
}

// `rows` further on.
__device__ __forceinline__ RowIndex advance(const RowCount& n, RowIndex row, uint32 rows) {
  const uint32 inner = row.axis[2] + rows, middle = row.axis[1] + inner / n.count[2];
  return {row.axis[0] + middle / n.count[1], middle % n.count[1], inner % n.count[2]};
}

__device__ __forceinline__ int64 row_offset(const RowStrides& s, const RowIndex& row) {
  return row.axis[0] * s.axis[0] + row.axis[1] * s.axis[1] + row.axis[2] * s.axis[2];
}

}  // namespace rocke

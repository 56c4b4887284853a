// Copies the rows of a strided array to another one, of another type and another number of columns: columns that the source
// does not have become zero, columns that the destination does not have are dropped. So the same kernel packs an input into
// the layout that attention takes, and unpacks its result into any view.
//
// Variant: from, to (ElementKind).
#pragma once
#include "common/element.h"
#include "common/rows.h"
#include "isa/lane.h"
#include "parts/columns.h"

namespace rocke {

struct CopyShape {
  RowStrides from, to;
  RowCount rows;
  int32 from_columns, to_columns;
  int32 rows_first;  // neighbouring lanes take neighbouring rows, not columns: for sources whose rows lie side by side
  int32 reserved;    // keeps the size a multiple of 8
};

constexpr int pack_lanes = 256;

template <class V>
__device__ __forceinline__ void pack(const char* from, char* to, const CopyShape& shape) {
  using From = typename ElementOfKind<V::from>::type;
  using To = typename ElementOfKind<V::to>::type;
  const int64 rows = count_rows(shape.rows);
  const uint32 tile_rows = 1u << shape.rows.tile_log2;
  const uint32 pieces = ceil_div(shape.to_columns, columns_per_lane), work = tile_rows * pieces;
  const int64 stride = int64(gridDim.x) * tile_rows;
  for (int64 base = int64(blockIdx.x) * tile_rows; base < rows; base += stride) {
    const RowIndex first = first_row(shape.rows, base);
    const uint32 here = min<int64>(tile_rows, rows - base);
    for (uint32 i = work_item_id(); i < work; i += pack_lanes) {
      const uint32 piece = shape.rows_first ? i >> shape.rows.tile_log2 : i % pieces;
      const uint32 row = shape.rows_first ? i & (tile_rows - 1) : i / pieces;
      if (row >= here) continue;
      const RowIndex index = advance(shape.rows, first, row);
      const int column = piece * columns_per_lane;
      const Columns<From> values =
          load_columns<From>(from + row_offset(shape.from, index), shape.from.column, column, shape.from_columns);
      store_columns<To>(to + row_offset(shape.to, index), shape.to.column, column, shape.to_columns,
                        cast_columns<To, From>(values));
    }
  }
}

}  // namespace rocke

#define ROCKE_PACK(entry)                                                                        \
  extern "C" __global__ __launch_bounds__(256) void entry(const void* from_ptr, void* to_ptr,    \
                                                          rocke::CopyShape shape) {              \
    rocke::pack<Variant>((const char*)from_ptr, (char*)to_ptr, shape);                           \
  }

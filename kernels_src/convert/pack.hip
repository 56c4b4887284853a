// Copies the rows of a strided array to another one, of another type and another number of columns: columns that the source
// does not have become zero, columns that the destination does not have are dropped. So the same kernel packs an input into
// the layout that attention takes, and unpacks its result into any view.
//
// Variant: from, to (ElementKind).
#pragma once
#include "common/element.h"
#include "common/rows.h"
#include "parts/columns.h"
#include "parts/walk.h"

namespace rocke {

struct CopyShape {
  RowStrides from, to;
  RowCount rows;
  int32 from_columns, to_columns;
  int32 rows_first;  // the rows of one of the arrays lie side by side
  int32 reserved;    // keeps the size a multiple of 8
};

template <class V>
__device__ __forceinline__ void pack(const char* from, char* to, const CopyShape& shape) {
  using From = typename ElementOfKind<V::from>::type;
  using To = typename ElementOfKind<V::to>::type;
  for_each_piece(shape.rows, shape.to_columns, shape.rows_first, [&](const RowIndex& row, int column) {
    const Columns<From> values =
        load_columns<From>(from + row_offset(shape.from, row), shape.from.column, column, shape.from_columns);
    store_columns<To>(to + row_offset(shape.to, row), shape.to.column, column, shape.to_columns,
                      cast_columns<To, From>(values));
  });
}

}  // namespace rocke

#define ROCKE_PACK(entry)                                                                        \
  extern "C" __global__ __launch_bounds__(256) void entry(const void* from_ptr, void* to_ptr,    \
                                                          rocke::CopyShape shape) {              \
    rocke::pack<Variant>((const char*)from_ptr, (char*)to_ptr, shape);                           \
  }

// Eight columns of a row, between memory and registers. They are carried as the bits of their elements: copying then cannot
// change a NaN. Addresses of single
// columns are opaque: as multiples of the stride, kept over the loop, they would fill the scalar registers.
#pragma once
#include "common/element.h"
#include "common/rows.h"
#include "parts/cast.h"

namespace rocke {

constexpr int columns_per_lane = 8;

template <class T>
using Columns = vec<Bits<T>, columns_per_lane>;

// Columns `first` .. `first` + 7 of a row of `columns`; zero past its end.
template <class T>
__device__ __forceinline__ Columns<T> load_columns(const char* row, int64 stride, int first, int columns) {
  const char* address = row + first * stride;
  if (stride == sizeof(T) && first + columns_per_lane <= columns) return *(const Unaligned<Columns<T>>*)address;
  Columns<T> values = Bits<T>(0);
#pragma unroll
  for (int e = 0; e < columns_per_lane; e++, address = opaque(address + stride))
    if (first + e < columns) values[e] = *(const Unaligned<Bits<T>>*)address;
  return values;
}

// Those of them that the row has.
template <class T>
__device__ __forceinline__ void store_columns(char* row, int64 stride, int first, int columns, Columns<T> values) {
  char* address = row + first * stride;
  if (stride == sizeof(T) && first + columns_per_lane <= columns) {
    *(Unaligned<Columns<T>>*)address = values;
    return;
  }
#pragma unroll
  for (int e = 0; e < columns_per_lane; e++, address = opaque(address + stride))
    if (first + e < columns) *(Unaligned<Bits<T>>*)address = values[e];
}

template <class To, class From>
__device__ __forceinline__ Columns<To> cast_columns(Columns<From> values) {
  Columns<To> result;
#pragma unroll
  for (int e = 0; e < columns_per_lane; e++)
    result[e] = bit_cast<Bits<To>>(cast<To>(bit_cast<From>(Bits<From>(values[e]))));
  return result;
}

}  // namespace rocke

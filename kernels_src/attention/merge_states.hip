// Joins attention results over disjoint sets of keys into the result over all of them: the parts that a launch cut its keys
// into, or the shards of a caller.
//
// Variant: from, to (ElementKind) of the parts and of the result. LSEs are float32.
#pragma once
#include "common/element.h"
#include "common/math.h"
#include "common/rows.h"
#include "isa/float.h"
#include "isa/lane.h"
#include "parts/columns.h"
#include "parts/walk.h"

namespace rocke {

constexpr int max_parts = 32;

struct MergeShape {
  RowStrides part, out, part_lse, lse;  // an LSE has no columns
  RowCount rows;
  int32 part_columns, out_columns;      // padded, and as the caller wants them
  int32 parts;
  int32 reserved;                       // keeps the size a multiple of 8
};

struct MergeParts {
  const char* out[max_parts];
  const char* lse[max_parts];
};

// As the arguments lie in memory. They are read where they are used: kept over the loops they spill scalar registers, and a
// copy of the parts, which are indexed at run time, would lie in scratch.
struct MergeArguments {
  char *out, *lse;  // lse may be null
  MergeShape shape;
};
struct MergeBlock {
  MergeArguments arguments;
  MergeParts parts;
};
using ConstantParts = ConstantPointer<MergeParts>;

__device__ __forceinline__ float load_lse(ConstantParts parts, int i, int64 offset) {
  return *(const Unaligned<float>*)(parts->lse[i] + offset);
}

// The weights of a row's parts before their division by `total`: exp(lse - top), and of that the 32nd part, so that no sum of
// finite values overflows. Sums are float64: as 1 is exactly 1 in them, whatever the weights are, so is any narrower result.
struct PartWeights {
  float top;
  double total;

  __device__ PartWeights(ConstantParts parts, int count, int64 offset) : top(-infinity), total(0) {
    for (int i = 0; i < count; i++) {
      const float lse = load_lse(parts, i, offset);
      if (lse > top || lse != lse) top = lse;  // a NaN stays
    }
    for (int i = 0; i < count; i++) total += (*this)(load_lse(parts, i, offset));
  }
  __device__ double operator()(float lse) const {
    return top == -infinity ? 0. : double(exp2_raw((lse - top) * log2_e)) / max_parts;
  }
  __device__ float lse() const { return top + log2_raw(float(total * max_parts)) * ln_2; }
};

template <class V>
__device__ __forceinline__ void merge_piece(const RowIndex& row, int column) {
  using From = typename ElementOfKind<V::from>::type;
  using To = typename ElementOfKind<V::to>::type;
  const MergeShape shape = kernel_arguments<MergeArguments>().shape;
  const ConstantParts parts = &kernel_arguments_in_place<MergeBlock>()->parts;
  const int64 part_lse = row_offset(shape.part_lse, row), part = row_offset(shape.part, row);
  const PartWeights weights(parts, shape.parts, part_lse);

  vec<double, columns_per_lane> sum = 0.;
  for (int i = 0; i < shape.parts; i++) {
    const float lse = load_lse(parts, i, part_lse);
    const double weight = weights(lse);
    const Columns<From> values = load_columns<From>(parts->out[i] + part, shape.part.column, column, shape.part_columns);
#pragma unroll
    for (int e = 0; e < columns_per_lane; e++) {
      // A part in which the row saw no key has no say, whatever it holds. A NaN that it did see shows at any weight.
      const double value = lse == -infinity ? 0. : double(bit_cast<From>(Bits<From>(values[e])));
      sum[e] += weight * value;
    }
  }
  const bool unseen = weights.total == 0;
  const double factor = unseen ? 0. : 1 / weights.total;
  Columns<To> result;
#pragma unroll
  for (int e = 0; e < columns_per_lane; e++)
    result[e] = bit_cast<Bits<To>>(cast<To>(finite_mean<To>(opaque(sum[e]), factor)));

  const MergeArguments to = kernel_arguments<MergeArguments>();
  store_columns<To>(to.out + row_offset(to.shape.out, row), to.shape.out.column, column, to.shape.out_columns, result);
  if (to.lse != nullptr && column == 0)
    *(float*)(to.lse + row_offset(to.shape.lse, row)) =
        unseen ? -infinity : weights.lse();
}

}  // namespace rocke

#define ROCKE_MERGE_STATES(entry)                                                                                   \
  extern "C" __global__ __launch_bounds__(256) void entry(void* out_ptr, float* lse_ptr, rocke::MergeShape shape,   \
                                                          rocke::MergeParts parts) {                                \
    rocke::for_each_piece(shape.rows, shape.out_columns, false, [](const rocke::RowIndex& row, int column) {        \
      rocke::merge_piece<Variant>(row, column);                                                                     \
    });                                                                                                             \
  }

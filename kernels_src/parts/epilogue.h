// Divides by the row sum and stores the rows that exist.
#pragma once
#include "common/arguments.h"
#include "parts/cast.h"
#include "parts/key_range.h"
#include "parts/online_softmax.h"
#include "parts/query_rows.h"

namespace rocke {

template <int blocks>
__device__ __forceinline__ float largest_magnitude(const f32x16 (&o)[blocks]) {
  float top = 0.f;
  static_for<0, blocks * 8>([&](auto i) {
    constexpr int d = i / 8, r = 2 * (i % 8);
    top = max3(top, __builtin_fabsf(o[d][r]), __builtin_fabsf(o[d][r + 1]));
  });
  return top;
}

template <class V, class Softmax>
__device__ __forceinline__ void store_rows(const Arguments& a, const Sequence& s, const WorkItem& item, QueryRow row, int half,
                                           f32x16 (&o)[Tiling<V>::d_tiles], const Softmax& softmax) {
  using Out = typename Choose<V::float32_out, float, Element<V>>::type;
  float row_sum = softmax.row_sum();
  if (!row.exists) return;
  const Shape& shape = a.shape;
  // Scores that are all -inf sum to 0, as no scores do, yet are 0/0. Which it is, is read anew: kept over the loop it spills. A
  // part of the keys leaves it to the others.
  if (!V::split_kv && row_sum == 0) {
    const KeyBounds keys = visible_keys<V>(shape, find_sequence<V>(a, item.batch), row.token);
    if (keys.first <= keys.last) row_sum = __builtin_nanf("");
  }
  const int64 token = s.q_token + row.token;
  if (a.lse != nullptr && half == 0)
    a.lse[item.split * shape.lse_split + s.batch * shape.lse_batch + row.head * shape.lse_head + token] =
        softmax.log_sum_exp(row_sum, a.softmax_scale);

  // A row that saw no key is 0; NaN stays NaN.
  float factor = row_sum == 0 ? 0.f : reciprocal(row_sum);
  // Rounded weights may add up to a little more than the row's sum: values of 65504 have a mean then that is rounded to infinity.
  // The vote costs half an instruction an element. bfloat16 has no such case, sums in float32 overflow before (docs/numerics.md).
  if constexpr (!V::bfloat16 && !V::float32_out)
    if (any_lane(!(largest_magnitude(o) * factor <= Format<Out>::largest))) {
      static_for<0, Tiling<V>::d_tiles * 16>([&](auto i) {
        constexpr int d = i / 16, r = i % 16;
        o[d][r] = finite_mean<Out>(o[d][r], factor);
      });
      factor = 1.f;
    }
  Out* address = (Out*)a.o + item.split * shape.o_split + s.batch * shape.o.batch + token * shape.o.token +
                 row.head * shape.o.head + 4 * half;
#pragma unroll
  for (int d = 0; d < Tiling<V>::d_tiles; d++)
#pragma unroll
    for (int r = 0; r < 16; r += 4) {
      const int column = 32 * d + mfma_row(r);
      if (column < V::head_dim)
        *(vec<Out, 4>*)(address + column) =
            __builtin_convertvector(f32x4{o[d][r], o[d][r + 1], o[d][r + 2], o[d][r + 3]} * factor, vec<Out, 4>);
    }
}

// Rows of packed arrays that belong to no sequence, from `first_row` on in steps of `step`: 0, and an LSE of -inf.
template <class V, class Softmax>
__device__ __forceinline__ void clear_rows(const Arguments& a, const Sequence& s, const WorkItem& item, const QueryRows<V>& rows,
                                           int first_row, int step, int wave, int lane) {
  f32x16 zero[Tiling<V>::d_tiles];
  for (auto& block : zero) block = 0.f;
  for (int row = first_row; row < rows.count(); row += step)
    store_rows<V>(a, s, item, rows[row + wave * rows_per_wave + lane % 32], lane / 32, zero,
                  Softmax(a.softmax_scale));
}

}  // namespace rocke

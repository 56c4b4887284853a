// Divides by the row sum and stores the rows that exist.
#pragma once
#include "common/arguments.h"
#include "isa/buffer.h"
#include "isa/lane.h"
#include "isa/lds.h"
#include "isa/wait.h"
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

// Four columns of the output, from the `r`-th register of block `d` on, times the factor; as they are stored.
template <class Out, int d, int r, int blocks>
__device__ __forceinline__ auto four_columns(const f32x16 (&o)[blocks], float factor) {
  const f32x4 values = f32x4{o[d][r], o[d][r + 1], o[d][r + 2], o[d][r + 3]} * factor;
  return bit_cast<vec<uint32, sizeof(Out)>>(__builtin_convertvector(values, vec<Out, 4>));
}

// Through LDS, in parts of 256 bytes a row, to be stored in whole lines of memory.
template <class V, class Out>
__device__ __forceinline__ void store_lines(const Arguments& a, const Sequence& s, const WorkItem& item,
                                            const QueryRows<V>& rows, int wave_row, int wave, int lane,
                                            const f32x16 (&o)[Tiling<V>::d_tiles], float factor) {
  constexpr int row_bytes = V::head_dim * sizeof(Out), quad_bytes = 4 * sizeof(Out);
  // A single token has no stride; the rows that do not exist must still lie past it.
  const uint32 pitch = max(int(a.shape.o.token), V::head_dim) * sizeof(Out);
  const Out* first = (Out*)a.o + item.split * a.shape.o_split +
                     element_offset(a.shape.o, s.batch, s.q_token + wave_row, rows.head);
  const BufferResource buffer = buffer_of_rows(first, pitch, rows.count() - wave_row, V::head_dim);
  const uint32 area = uint32(row_area<V>(wave)), half = lane / 32;
  const uint32 own = area + row_lane_offset(lane) + half * quad_bytes - half * 16;
  static_for<0, ceil_div(row_bytes, row_part_bytes)>([&](auto part) {
    constexpr int start = part * row_part_bytes;
    static_for<0, row_part_bytes / (2 * quad_bytes)>([&](auto i) {
      constexpr int byte = 2 * quad_bytes * i, column = (start + byte) / int(sizeof(Out));
      if constexpr (column < V::head_dim)
        lds_write<row_byte_offset(byte)>(own, four_columns<Out, column / 32, column % 32 / 2>(o, factor));
    });
    const int byte = start + line_byte(lane);
    const bool inside = byte < row_bytes;
    const uint32 source = area + (inside ? lane * 16 : 0), offset = inside ? line_row(lane) * pitch + byte : nowhere;
    vec<short, 8> line[row_lines];
    static_for<0, row_lines>([&](auto j) { line[j] = lds_read_b128<j * k_line_bytes, short>(source); });
    static_for<0, row_lines>([&](auto j) {
      wait_counters<any_vm, row_lines - 1 - j>();
      store_b128(bit_cast<vec<uint32, 4>>(opaque(line[j])), buffer, offset, j * pitch);
    });
  });
}

// Each lane its own row.
template <class V, class Out>
__device__ __forceinline__ void store_lanes(const Arguments& a, const Sequence& s, const WorkItem& item, QueryRow row, int half,
                                            const f32x16 (&o)[Tiling<V>::d_tiles], float factor) {
  Out* address = (Out*)a.o + item.split * a.shape.o_split +
                 element_offset(a.shape.o, s.batch, s.q_token + row.token, row.head);
  static_for<0, ceil_div(V::head_dim, 16)>([&](auto pair) {
    constexpr int d = pair / 2, r = pair % 2 * 8, column = 16 * pair;
    auto low = four_columns<Out, d, r>(o, factor), high = four_columns<Out, d, r + 4>(o, factor);
    if constexpr (sizeof(Out) == 2 && column + 16 <= V::head_dim) {
      // The halves of the wave exchange columns, so that each lane has eight in a row.
      const u32x2 first = swap_halves(low[0], high[0]), second = swap_halves(low[1], high[1]);
      if (row.exists)
        *(Unaligned<vec<uint32, 4>>*)(address + column + 8 * half) = vec<uint32, 4>{first[0], second[0], first[1], second[1]};
    } else if (row.exists) {
      *(Unaligned<decltype(low)>*)(address + column + 4 * half) = low;
      if constexpr (column + 8 < V::head_dim) *(Unaligned<decltype(low)>*)(address + column + 8 + 4 * half) = high;
    }
  });
}

// `visited` tells that the block has keys. Its rows may still see none, if a bound hides them.
template <class V, bool visited, class Softmax>
__device__ __forceinline__ void store_rows(const Arguments& a, const Sequence& s, const WorkItem& item,
                                           const QueryRows<V>& rows, int wave_row, int wave, int lane,
                                           f32x16 (&o)[Tiling<V>::d_tiles], const Softmax& softmax) {
  using Out = typename Choose<V::float32_out, float, Element<V>>::type;
  if (wave_row >= rows.count()) return;
  const QueryRow row = rows[wave_row + lane % 32];
  const int half = lane / 32;
  float row_sum = softmax.row_sum();
  const Shape& shape = a.shape;
  // Scores that are all -inf sum to 0, as no scores do, yet are 0/0. Which it is, is read anew: kept over the loop it spills. A
  // part of the keys leaves it to the others.
  if (visited && !V::split_kv && row_sum == 0) {
    KeyBounds keys{0, 0};
    if constexpr (V::right_bound || V::left_bound) keys = visible_keys<V>(shape, find_sequence<V>(a, item.batch), row.token);
    if (keys.first <= keys.last) row_sum = __builtin_nanf("");
  }
  if (a.lse != nullptr && half == 0 && row.exists)
    a.lse[item.split * shape.lse_split + s.batch * shape.lse_batch + row.head * shape.lse_head + s.q_token + row.token] =
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
  if constexpr (rows_fit_lds<V>)
    store_lines<V, Out>(a, s, item, rows, wave_row, wave, lane, o, factor);
  else
    store_lanes<V, Out>(a, s, item, row, half, o, factor);
}

// Rows that see no key, this wave's and those `step` further on: 0, and an LSE of -inf.
template <class V, class Softmax>
__device__ __forceinline__ void clear_rows(const Arguments& a, const Sequence& s, const WorkItem& item, const QueryRows<V>& rows,
                                           int wave_row, int step, int wave, int lane) {
  f32x16 zero[Tiling<V>::d_tiles];
  for (auto& block : zero) block = 0.f;
  for (int row = wave_row; row < rows.count(); row += step)
    store_rows<V, false>(a, s, item, rows, row, wave, lane, zero, Softmax(a.softmax_scale));
}

}  // namespace rocke

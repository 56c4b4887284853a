// The rows of a block: one token of one head each, or with pack_gqa one token of each head of a group by turns, so that a
// single decoded token fills as many rows as it has heads.
#pragma once
#include "common/arguments.h"
#include "common/static_for.h"
#include "isa/buffer.h"
#include "isa/lane.h"
#include "isa/lds.h"
#include "isa/wait.h"
#include "parts/sequence.h"
#include "parts/work_order.h"
#include "tile/row_layout.h"

namespace rocke {

struct QueryRow {
  int token, head;
  bool exists;
};

template <class V>
struct QueryRows {
  Divisor group;
  int head, seqlen_q;

  __device__ QueryRows(const Shape& shape, const Sequence& sequence, const WorkItem& item)
      : group(V::pack_gqa ? shape.group : one), head(item.head * group.value), seqlen_q(sequence.seqlen_q) {}

  __device__ int count() const { return seqlen_q * group.value; }
  __device__ int token(int row) const { return V::pack_gqa ? row / group : row; }
  __device__ QueryRow operator[](int row) const {
    return {token(row), V::pack_gqa ? head + row % group : head, row < count()};
  }
};

// Q on its way to the registers, as the B operand of the lane's row: columns 16 k + 8 (lane / 32)..+7 of each step. A kernel
// requests it, reads it when all of its own requests up to there have landed, and finishes it when its reads have.
//
// What a scale of zero or below asks for goes into Q exactly, so that the softmax only meets positive scales, and so does a power
// of two, so that it meets none below 2**-120 (split_scale in rocke_cupy/gpu/launch.py says why). What that takes below the
// smallest bfloat16 has less than 1e-35 of a score. float16 scores are alike with such scales, and need no power.
template <class V>
struct Query {
  using Fragment = vec<Element<V>, 8>;
  static constexpr int steps = Tiling<V>::qk_steps;
  const Arguments& arguments;
  const Sequence& sequence;
  const QueryRows<V>& rows;
  int wave, wave_row, lane;

  __device__ __forceinline__ void finish(Fragment (&q)[steps]) const {
    static_for<0, steps>([&](auto k) { q[k] = opaque(q[k]); });
    if constexpr (V::head_dim % 16 != 0)
      if (lane >= 32) q[steps - 1] = Fragment{};
    const int bits = bit_cast<int>(arguments.softmax_scale), exponent = V::bfloat16 ? arguments.shape.query_exponent : 0;
    if (__builtin_expect(bits <= 0 || exponent != 0, false)) {
      const short sign = bits < 0 ? short(0x8000) : short(0);
      const bool zero = bits << 1 == 0;
      const float factor = __builtin_ldexpf(1.f, exponent);
      static_for<0, steps>([&](auto k) {
        const auto signed_q = bit_cast<Fragment>(bit_cast<vec<short, 8>>(q[k]) ^ sign);
        static_for<0, 8>([&](auto e) {
          constexpr int element = e;
          q[k][element] = zero ? Element<V>(0) : V::bfloat16 ? Element<V>(float(signed_q[element]) * factor) : signed_q[element];
        });
      });
    }
  }
};

// Each lane its own row, straight to the registers. A row that does not exist takes the last one's place; it is not stored.
template <class V>
struct QueryOfLanes : Query<V> {
  using typename Query<V>::Fragment;

  // All under way at once, which a branch around some of them would prevent: the columns past the head dim are others.
  __device__ __forceinline__ void request(Fragment (&q)[Query<V>::steps]) const {
    const QueryRow row = this->rows[min(this->wave_row + this->lane % 32, this->rows.count() - 1)];
    const Sequence& s = this->sequence;
    const auto* address = (const Element<V>*)this->arguments.q +
                          element_offset(this->arguments.shape.q, s.batch, s.q_token + row.token, row.head);
    const int half = 8 * (this->lane / 32);
    static_for<0, Query<V>::steps>([&](auto k) {
      q[k] = *(const Fragment*)(address + 16 * k + (16 * k + 16 <= V::head_dim ? half : 0));
    });
    rest<1>();  // with XNACK, loads that stand together are executed again together, which LDS DMA behind them must not be
  }
  __device__ __forceinline__ void read(Fragment (&)[Query<V>::steps]) const {}
};

template <int bytes>
__device__ __forceinline__ LdsBytes row_areas() {
  __shared__ __attribute__((aligned(16))) char memory[bytes];
  return (LdsBytes)(LdsPointer<void>)memory;
}
template <class V>
__device__ __forceinline__ LdsBytes row_area(int wave) {
  return row_areas<Tiling<V>::waves * row_area_bytes>() + wave * row_area_bytes;
}

// The rows of a wave as a buffer: rows past the last one are out of its range. `pitch` is the distance of two rows.
template <class T>
__device__ __forceinline__ BufferResource buffer_of_rows(const T* first, uint32 pitch, int rows, int columns) {
  const int last = min(rows, rows_per_wave) - 1;
  return make_buffer(first, last < 0 ? 0 : last * pitch + columns * int(sizeof(T)));
}

// Whole lines of memory, through LDS.
template <class V>
struct QueryThroughLds : Query<V> {
  using typename Query<V>::Fragment;

  __device__ __forceinline__ void request(Fragment (&)[Query<V>::steps]) const {
    const Strides& stride = this->arguments.shape.q;
    const Sequence& s = this->sequence;
    const uint32 pitch = uint32(stride.token) * 2;
    const auto* first = (const Element<V>*)this->arguments.q +
                        element_offset(stride, s.batch, s.q_token + this->wave_row, this->rows.head);
    const BufferResource buffer = buffer_of_rows(first, pitch, this->rows.count() - this->wave_row, V::head_dim);
    const int byte = line_byte(this->lane);
    const uint32 lane_offset = byte < V::head_dim * 2 ? line_row(this->lane) * pitch + byte : nowhere;
    const LdsBytes area = row_area<V>(this->wave);
    static_for<0, row_lines>([&](auto j) { dma_b128_to_lds<0>(buffer, area + j * k_line_bytes, lane_offset, j * pitch); });
  }
  __device__ __forceinline__ void read(Fragment (&q)[Query<V>::steps]) const {
    const uint32 row = uint32(row_area<V>(this->wave)) + row_lane_offset(this->lane);
    static_for<0, Query<V>::steps>([&](auto k) { q[k] = lds_read_b128<row_byte_offset(32 * k), Element<V>>(row); });
  }
};

}  // namespace rocke

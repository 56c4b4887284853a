// The rows of a block: one token of one head each, or with pack_gqa one token of each head of a group by turns, so that a
// single decoded token fills as many rows as it has heads.
#pragma once
#include "common/arguments.h"
#include "parts/sequence.h"
#include "parts/work_order.h"

namespace rocke {

struct QueryRow {
  int token, head;
  bool exists;
};

template <class V>
struct QueryRows {
  int group, head, seqlen_q;

  __device__ QueryRows(const Shape& shape, const Sequence& sequence, const WorkItem& item)
      : group(V::pack_gqa ? shape.query_heads / shape.kv_heads : 1), head(item.head * group), seqlen_q(sequence.seqlen_q) {}

  __device__ int count() const { return seqlen_q * group; }
  __device__ int token(int row) const { return V::pack_gqa ? row / group : row; }
  __device__ QueryRow operator[](int row) const {
    return {token(row), V::pack_gqa ? head + row % group : head, row < count()};
  }
};

// The lane's row as the B operand of Q: columns 16 k + 8 (lane / 32)..+7 of each step, zero past the head dim and for rows that
// do not exist. A scale of zero or below goes into Q exactly, so that the softmax only meets positive scales, and so does a power
// of two, so that it meets none below 2**-120 (split_scale in rocke_cupy/gpu/launch.py says why). What it takes below the
// smallest bfloat16 has less than 1e-35 of a score. float16 scores are alike with such scales, and need no power.
template <class V>
__device__ __forceinline__ void load_query(vec<Element<V>, 8> (&q)[Tiling<V>::qk_steps], const Arguments& a,
                                           const Sequence& s, QueryRow row, int half) {
  using Fragment = vec<Element<V>, 8>;
  const Strides& stride = a.shape.q;
  const auto* address = (const Element<V>*)a.q + s.batch * stride.batch + (s.q_token + row.token) * stride.token +
                        row.head * stride.head;
  const short sign = a.softmax_scale < 0 ? short(0x8000) : short(0);
#pragma unroll
  for (int k = 0; k < Tiling<V>::qk_steps; k++) q[k] = Fragment{};
  if (!row.exists || a.softmax_scale == 0) return;
#pragma unroll
  for (int k = 0; k < Tiling<V>::qk_steps; k++) {
    const int column = 16 * k + 8 * half;
    if (column < V::head_dim) q[k] = bit_cast<Fragment>(*(const vec<short, 8>*)(address + column) ^ sign);
  }
  if constexpr (V::bfloat16)
    if (a.shape.query_exponent != 0) {
      const float factor = __builtin_ldexpf(1.f, a.shape.query_exponent);
#pragma unroll
      for (int k = 0; k < Tiling<V>::qk_steps; k++)
#pragma unroll
        for (int e = 0; e < 8; e++) q[k][e] = __bf16(float(q[k][e]) * factor);
    }
}

}  // namespace rocke

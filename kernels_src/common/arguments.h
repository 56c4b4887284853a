// What the host passes at run time: everything that may differ between two calls of one binary. rocke_cupy/kernels/
// layouts.py reads these declarations.
#pragma once
#include "common/types.h"

namespace rocke {

// At any address, in memory that may change between two replays of a HIP graph: see load_length.
using Lengths = const __attribute__((address_space(1))) Unaligned<int32>*;

struct Strides {  // in elements; the last axis has stride 1
  int64 batch, token, head;
};
// Where a token of a head starts, in elements. All numbers are 0 or more: without a sign, each product takes a third less.
__device__ __forceinline__ int64 element_offset(const Strides& stride, uint32 batch, uint32 token, uint32 head) {
  return stride.batch * int64(batch) + stride.head * int64(head) + stride.token * int64(token);
}

// What numbers below 2**31 are divided by: a division costs some 30 scalar instructions, a product with the reciprocal three.
// rocke_cupy/gpu/launch.py prepares it.
struct Divisor {
  int32 value;
  uint32 multiplier;  // 2**(31 + shift) / value, rounded up
  int32 shift;        // log2(value), rounded up
};
__device__ __forceinline__ int operator/(int n, const Divisor& d) {
  return uint32(uint64(uint32(n) << 1) * d.multiplier >> 32) >> d.shift;
}
__device__ __forceinline__ int operator%(int n, const Divisor& d) { return n - n / d * d.value; }

struct Shape {
  Strides q, k, v, o;
  int64 lse_batch, lse_head;    // LSE strides, in elements; the token axis has stride 1
  int64 o_split, lse_split;     // distance of the partial results of two splits
  Divisor batch;                // entries; packed sequences count one more, the rows past the last sequence
  Divisor kv_heads, group;      // query heads of each kv head
  Divisor query_blocks;         // of a head, or of a group whose heads share the rows
  Divisor num_splits;
  int32 seqlen_q, seqlen_kv;    // of every entry, or the largest of packed sequences
  int32 window_left, window_right;  // visible keys around the diagonal; 2**30 is unlimited
  int32 top_left;               // 1: the diagonal starts at key 0; 0: it ends at the entry's last key
  int32 num_workgroups;         // of the grid, the stride of a persistent workgroup
  int32 total_q;                // tokens of packed q
  int32 query_exponent;         // q counts 2**query_exponent times: what a scale next to nothing is short of
};

struct Arguments {
  const void *q, *k, *v;
  void* o;
  float softmax_scale;
  Lengths cu_seqlens_q, cu_seqlens_kv;  // packed sequences only
  Lengths kv_lens;                      // may be null
  float* lse;                           // may be null
  Shape shape;
};

}  // namespace rocke

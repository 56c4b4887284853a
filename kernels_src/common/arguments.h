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

struct Shape {
  Strides q, k, v, o;
  int64 lse_batch, lse_head;    // LSE strides, in elements; the token axis has stride 1
  int64 o_split, lse_split;     // distance of the partial results of two splits
  int32 batch;                  // entries; packed sequences count one more, the rows past the last sequence
  int32 seqlen_q, seqlen_kv;    // of every entry, or the largest of packed sequences
  int32 query_heads, kv_heads;
  int32 window_left, window_right;  // visible keys around the diagonal; 2**30 is unlimited
  int32 top_left;               // 1: the diagonal starts at key 0; 0: it ends at the entry's last key
  int32 num_splits;
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

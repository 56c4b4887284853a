// One entry of the batch: its lengths, where its rows start, and where its diagonal lies.
#pragma once
#include "common/arguments.h"

namespace rocke {

struct Sequence {
  int seqlen_q, seqlen_kv;
  int64 q_token, kv_token;  // first token in packed arrays, 0 otherwise
  int64 batch;              // index for the batch strides, 0 in packed arrays
  int diagonal;             // query i sees keys around i + diagonal
};

template <class V>
__device__ __forceinline__ Sequence find_sequence(const Arguments& a, int batch) {
  Sequence s{a.shape.seqlen_q, a.shape.seqlen_kv, 0, 0, batch, 0};
  if constexpr (V::varlen) {
    s.batch = 0;
    s.q_token = a.cu_seqlens_q[batch];
    if (batch == a.shape.batch - 1) {  // the rows that belong to no sequence: they see no key
      s.seqlen_q = a.shape.total_q - a.cu_seqlens_q[batch];
      s.seqlen_kv = 0;
    } else {
      s.kv_token = a.cu_seqlens_kv[batch];
      s.seqlen_q = a.cu_seqlens_q[batch + 1] - a.cu_seqlens_q[batch];
      s.seqlen_kv = a.cu_seqlens_kv[batch + 1] - a.cu_seqlens_kv[batch];
    }
  } else if (a.kv_lens != nullptr) {
    s.seqlen_kv = a.kv_lens[batch];
  }
  s.diagonal = a.shape.top_left ? 0 : s.seqlen_kv - s.seqlen_q;
  return s;
}

}  // namespace rocke

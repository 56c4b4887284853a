// One entry of the batch: its lengths, where its rows start, and where its diagonal lies.
#pragma once
#include "common/arguments.h"
#include "isa/lane.h"

namespace rocke {

struct Sequence {
  int seqlen_q, seqlen_kv;
  uint32 q_token, kv_token;  // first token in packed arrays, 0 otherwise
  uint32 batch;              // index for the batch strides, 0 in packed arrays
  int diagonal;              // query i sees keys around i + diagonal
};

// By a vector load: in a replayed HIP graph the scalar cache may still hold the lengths of the replay before (ROCm/hip issue
// 3902, on an MI355X).
__device__ __forceinline__ int load_length(Lengths lengths, int index) { return uniform(lengths[opaque(index)]); }

template <class V>
__device__ __forceinline__ Sequence find_sequence(const Arguments& a, int batch) {
  Sequence s{a.shape.seqlen_q, a.shape.seqlen_kv, 0, 0, uint32(batch), 0};
  if constexpr (V::varlen) {
    const int first = load_length(a.cu_seqlens_q, batch);
    s.batch = 0;
    s.q_token = first;
    if (batch == a.shape.batch.value - 1) {  // the rows that belong to no sequence: they see no key
      s.seqlen_q = a.shape.total_q - first;
      s.seqlen_kv = 0;
    } else {
      const int first_key = load_length(a.cu_seqlens_kv, batch);
      s.kv_token = first_key;
      s.seqlen_q = load_length(a.cu_seqlens_q, batch + 1) - first;
      s.seqlen_kv = load_length(a.cu_seqlens_kv, batch + 1) - first_key;
    }
  } else if (a.kv_lens != nullptr) {
    s.seqlen_kv = load_length(a.kv_lens, batch);
  }
  s.diagonal = a.shape.top_left ? 0 : s.seqlen_kv - s.seqlen_q;
  return s;
}

}  // namespace rocke

// What becomes of a score on its way from Q K^T to the masks:
//
//   s = softmax_scale * (q . k);  soft cap;  bias;  score_mod;  then the masks (parts/mask.h), and the softmax.
//
// A variant that has nothing between the scale and the masks takes a shorter way to the same weights. Its scores start at minus
// the anchor, as the C operand of the first MFMA, and stay in units of q . k until the exponent, where the scale enters
// (parts/anchor.h): no instruction is spent on them here. Whatever needs s itself starts at zero, makes s of the
// products in `modify_scores`, changes it in the order above, and takes the anchor off last.
#pragma once
#include "parts/anchor.h"

namespace rocke {

__device__ __forceinline__ f32x16 start_of_scores(const OperandAnchor& anchor) { return anchor.negative; }
__device__ __forceinline__ f32x16 start_of_scores(const ValueAnchor& anchor) { return f32x16(opaque(anchor.negative)); }

// Of blocks of 32 keys, the first of which is key `first_key` of the sequence.
template <class V, int blocks>
__device__ __forceinline__ void modify_scores(f32x16 (&)[blocks], int /*first_key*/) {}

}  // namespace rocke

// What the weights of a row are relative to: the running maximum of its scores, or a little below it (lazy rescale). Kept as
// its negative, and in two ways, by how a kernel's loop goes.
#pragma once
#include "common/math.h"
#include "isa/lane.h"

namespace rocke {

// As 16 copies: the C operand of the first MFMA of each block of scores, so that the subtraction costs no instruction. The output
// lags one tile behind the scores: it must not shrink before the product of the previous tile, which has the old anchor, is
// added, and does so when the next tile is looked at.
struct OperandAnchor {
  static constexpr bool output_lags = true;
  f32x16 negative;
  float shrink;  // what the output still has to be multiplied by, for the last move

  __device__ OperandAnchor() : negative(0.f), shrink(1.f) {}
  __device__ float value() const { return negative[0]; }
  // A block of registers, not a value to be spread at each use.
  __device__ __forceinline__ void set(float value) { negative = opaque(f32x16(value)); }
};

// As one copy, where registers are short and scores, softmax and output follow each other: the output shrinks at once.
struct ValueAnchor {
  static constexpr bool output_lags = false;
  float negative;

  __device__ ValueAnchor() : negative(0.f) {}
  __device__ float value() const { return negative; }
  __device__ __forceinline__ void set(float value) { negative = value; }
};

}  // namespace rocke

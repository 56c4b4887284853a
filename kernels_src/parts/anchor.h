// What the weights of a row are relative to: the running maximum of its scores, or a little below it (lazy rescale). Kept as
// its negative, and in two ways, by how a kernel's loop goes.
#pragma once
#include "common/math.h"
#include "isa/float.h"
#include "isa/lane.h"

namespace rocke {

// As 16 copies: the C operand of the first MFMA of each block of scores, so that the subtraction costs no instruction.
struct OperandAnchor {
  f32x16 negative;

  __device__ OperandAnchor() : negative(0.f) {}
  __device__ float value() const { return negative[0]; }
  // A block of registers, not a value to be spread at each use.
  __device__ __forceinline__ void set(float value) { negative = opaque(f32x16(value)); }
};

// As one copy, where registers are short.
struct ValueAnchor {
  float negative;

  __device__ ValueAnchor() : negative(0.f) {}
  __device__ float value() const { return negative; }
  __device__ __forceinline__ void set(float value) { negative = value; }
};

// The larger of the values that the two lanes of a row have.
__device__ __forceinline__ float larger_half(float value) {
  const f32x2 halves = both_halves(value);
  return max2(halves[0], halves[1]);
}

// A row's scores stay in the units of q.k. The scale enters once, as the factor c = |softmax_scale| log2(e) of (score - anchor):
// never as score * c - anchor * c, which loses all digits when the scores are large.
template <class Anchor>
struct AnchoredRow {
  f32x2 c;      // the factor twice, in a pair of scalar registers as packed instructions take it
  Anchor anchor;
  float limit;  // what the loop votes on may be as much, and the anchor stays; -infinity: the row has seen no key

  __device__ explicit AnchoredRow(float softmax_scale)
      : c(opaque_scalar(
            f32x2(uniform(softmax_scale == 0 ? 1.f : min(__builtin_fabsf(softmax_scale) * log2_e, float32_max))))),
        limit(-infinity) {}

  // Raises the anchor by `rise`. Scores that are relative to it lose `lost`; what is accumulated shrinks.
  struct Move {
    float lost, shrink;
  };
  __device__ __forceinline__ Move raise_anchor(float rise) {
    const float before = anchor.value(), raised = before - rise, shift = before - raised;
    anchor.set(raised);
    // Before the first key nothing is accumulated. Opaque: what is only spread keeps the structure in memory (D <= 32).
    return {drop(rise, shift), opaque(limit == -infinity ? 1.f : exp2_raw(-shift * c[0]))};
  }

  // Natural log of the sum of exp(scale * score).
  __device__ float log_sum_exp(float row_sum, float softmax_scale) const {
    const float top = softmax_scale == 0 ? 0.f : -anchor.value() * __builtin_fabsf(softmax_scale);
    return row_sum == 0 ? -infinity : top + log2_raw(row_sum) * ln_2;
  }

 private:
  // What a tile's scores lose when their anchor should rise by `rise`, and by rounding rises by `shift`.
  //
  // That is `shift`, so that all tiles share one anchor, unless exp would tell the two apart. Then the row's maximum could end up
  // so far below the anchor that every probability vanishes, or so far above that one overflows; it becomes zero instead. The
  // tiles' anchors then differ by less than their scores' own rounding.
  __device__ float drop(float rise, float shift) const {
    return __builtin_fabsf(rise - shift) * c[0] <= 1 ? shift : rise;
  }
};

}  // namespace rocke

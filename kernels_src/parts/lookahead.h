// What stands beside each MFMA of a loop that looks one block of 32 keys ahead (attention/flash_forward_wide.hip).
//
// 24 cycles of other vector instructions run beside an MFMA for free, six plain ones or three exp, but packed fp32 never does. So
// the softmax goes one score at a time here. Each result is opaque: the compilers would pair them again, or move them to another
// MFMA.
#pragma once
#include "isa/float.h"
#include "isa/lane.h"
#include "parts/online_softmax.h"

namespace rocke {

// A table with a slot for each MFMA, in two columns. `qk` slots multiply the scores of the block after, then twice `d` slots the
// probabilities of 16 keys each with V.
//
//   slots of            the block's softmax                             the block after it
//   Q K                 first part: all that the first 16 keys need
//   P V, first keys     second part
//   P V, last keys                                                      anchor off, maximum, vote
//
// A stage says how many of a block's 16 scores it has done at the end of a slot. It takes what the stage before left in the slot
// before, so that none waits for a result.
template <int qk, int d>
struct LookaheadSlots {
  static constexpr int softmax = qk + d;
  static constexpr int scaled(int i) { return share(i + 1, softmax - 2); }
  static constexpr int exponentiated(int i) { return share(i, softmax - 2); }
  static constexpr int summed(int i) { return share(i - 1, softmax - 2); }
  static constexpr int packed(int i) { return summed(i) / 2; }  // pairs

  static constexpr int anchored(int i) { return share(i + 1, d - 1); }
  static constexpr int compared(int i) { return min(compare_steps, anchored(i) / 2); }  // see compare_each

 private:
  static constexpr int compare_steps = 8;
  static constexpr int share(int i, int slots) { return i <= 0 ? 0 : i >= slots ? 16 : ceil_div(16 * i, slots); }

  static constexpr bool waits_for_nothing() {
    for (int i = 0; i < softmax; i++)
      if (exponentiated(i) > scaled(i - 1) || summed(i) > exponentiated(i - 1)) return false;
    return true;
  }
  static_assert(waits_for_nothing(), "each stage takes what the one before left in the slot before");
  static_assert(packed(qk - 2) >= 4, "the first step of P V finds its probabilities, a slot after they are packed");
  static_assert(summed(softmax - 1) == 16, "and so does the second");
  static_assert(compared(d - 2) == compare_steps, "the vote finds the maximum");
};

// Of scores `first` to `end` - 1 of a block.
template <int first, int end>
__device__ __forceinline__ void add_to_each(f32x16& scores, float term) {
  static_for<first, end>([&](auto i) {
    constexpr int r = i;
    scores[r] = opaque(scores[r] + term);
  });
}
template <int first, int end>
__device__ __forceinline__ void scale_each(f32x16& scores, float factor) {
  static_for<first, end>([&](auto i) {
    constexpr int r = i;
    scores[r] = opaque(scores[r] * factor);
  });
}
template <int first, int end>
__device__ __forceinline__ void exponentiate_each(f32x16& scores) {
  static_for<first, end>([&](auto i) {
    constexpr int r = i;
    scores[r] = opaque(exp2_raw(scores[r]));
  });
}
template <int first, int end>
__device__ __forceinline__ void sum_each(const f32x16& probabilities, f32x2& sum) {
  static_for<first, end>([&](auto i) {
    constexpr int r = i, part = r % 2;
    sum[part] = opaque(sum[part] + probabilities[r]);
  });
}
// Steps `first` to `end` - 1 of eight towards the maximum. Step i takes scores 2 i and 2 i + 1.
template <int first, int end>
__device__ __forceinline__ void compare_each(const f32x16& scores, float& top) {
  static_for<first, end>([&](auto i) {
    constexpr int r = 2 * i;
    if constexpr (i == 0)
      top = opaque(max2(scores[0], scores[1]));
    else
      top = opaque(max3(top, scores[r], scores[r + 1]));
  });
}

}  // namespace rocke

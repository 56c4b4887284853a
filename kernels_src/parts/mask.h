// Hides keys from a row: scores outside the visible keys become -inf, so that they count nothing whatever they were.
#pragma once
#include "common/math.h"
#include "common/static_for.h"
#include "isa/lane.h"
#include "isa/mfma.h"
#include "isa/wait.h"
#include "parts/key_range.h"

namespace rocke {

// The lane's visible keys, less the part of a key's index that depends on the lane (4 for the upper half of the wave).
template <class V>
struct Mask {
  int first, last;

  __device__ Mask(const Shape& shape, const Sequence& s, int token, int half) {
    const KeyBounds keys = visible_keys<V>(shape, s, token);
    first = keys.first - 4 * half;
    last = keys.last - 4 * half;
  }

  // A tile rarely needs both, and each costs a compare and a select a score: of those blocks in which a lane hides a key.
  template <int blocks>  // of 32 keys
  __device__ __forceinline__ void hide_after_last(f32x16 (&scores)[blocks], int first_key) const {
    const int below = last - first_key;
    static_for<0, blocks>([&](auto n) {
      if (any_lane(below < 32 * n + mfma_row(15))) hide<32 * n>(scores[n], [below](int key) { return key > below; });
    });
  }
  template <int blocks>
  __device__ __forceinline__ void hide_before_first(f32x16 (&scores)[blocks], int first_key) const {
    const int above = first - first_key;
    static_for<0, blocks>([&](auto n) {
      if (any_lane(above > 32 * n)) hide<32 * n>(scores[n], [above](int key) { return key < above; });
    });
  }

 private:
  template <int first_key, class Hidden>
  __device__ __forceinline__ static void hide(f32x16& scores, const Hidden& hidden) {
    // Four compares, then four selects: a select right behind its compare waits for the lanes' mask.
    static_for<0, 4>([&](auto group) {
      bool out[4];
      static_for<0, 4>([&](auto i) {
        constexpr int key = first_key + mfma_row(4 * group + i), member = i;
        out[member] = hidden(key);
      });
      schedule_fence();
      static_for<0, 4>([&](auto i) {
        constexpr int element = 4 * group + i, member = i;
        scores[element] = out[member] ? -infinity : scores[element];
      });
      schedule_fence();
    });
  }
};

}  // namespace rocke

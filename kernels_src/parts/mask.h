// Hides keys from a row: scores outside the visible keys become -inf, so that they count nothing whatever they were.
#pragma once
#include "common/math.h"
#include "common/static_for.h"
#include "isa/mfma.h"
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

  template <int blocks>  // of 32 keys
  __device__ __forceinline__ void apply(f32x16 (&scores)[blocks], int first_key) const {
    const int below = last - first_key, above = first - first_key;
    static_for<0, blocks>([&](auto n) {
      static_for<0, 16>([&](auto r) {
        constexpr int key = 32 * n + mfma_row(r), element = r;
        float score = scores[n][element];
        score = key <= below ? score : -infinity;
        if constexpr (V::left_bound) score = key >= above ? score : -infinity;
        scores[n][element] = score;
      });
    });
  }
};

}  // namespace rocke

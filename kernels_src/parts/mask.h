// Hides keys from a row: scores outside the visible keys become -inf, so that they count nothing whatever they were.
#pragma once
#include "common/math.h"
#include "isa/mfma.h"
#include "parts/key_range.h"

namespace rocke {

template <class V>
struct Mask {
  Shape shape;
  Sequence sequence;
  QueryRows<V> rows;
  int wave_row;  // of lane 0

  // What a lane sees is found anew for each masked tile: few tiles are, and the registers are needed elsewhere.
  template <int blocks>  // of 32 keys
  __device__ __forceinline__ void apply(f32x16 (&scores)[blocks], int first_key, int lane) const {
    const KeyBounds keys = visible_keys<V>(shape, sequence, rows.token(wave_row + lane % 32));
    const int lane_key = first_key + 4 * (lane / 32);
    const int first = keys.first - lane_key, last = keys.last - lane_key;
#pragma unroll
    for (int n = 0; n < blocks; n++)
#pragma unroll
      for (int r = 0; r < 16; r++) {
        const int key = 32 * n + mfma_row(r);
        scores[n][r] = key <= last ? scores[n][r] : -infinity;
        if constexpr (V::left_bound) scores[n][r] = key >= first ? scores[n][r] : -infinity;
      }
  }
};

}  // namespace rocke

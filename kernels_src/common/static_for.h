// Loops that are unrolled before any optimisation: register arrays indexed in a runtime loop land in scratch or LDS.
#pragma once
#include "common/types.h"

namespace rocke {

template <int value>
struct Index {
  __device__ constexpr operator int() const { return value; }
};

// body(Index<begin>), ..., body(Index<end - 1>): the index is a constant inside the body.
template <int begin, int end, class Body>
__device__ __forceinline__ void static_for(Body&& body) {
  if constexpr (begin < end) {
    body(Index<begin>{});
    static_for<begin + 1, end>(body);
  }
}

}  // namespace rocke

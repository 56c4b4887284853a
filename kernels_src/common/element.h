// The element types that arrays come in, as numbers of a variant.
#pragma once
#include "common/types.h"

namespace rocke {

enum ElementKind { element_bfloat16 = 0, element_float16 = 1, element_float32 = 2, element_float64 = 3 };

template <int kind>
struct ElementOfKind;
template <>
struct ElementOfKind<element_bfloat16> {
  using type = __bf16;
};
template <>
struct ElementOfKind<element_float16> {
  using type = _Float16;
};
template <>
struct ElementOfKind<element_float32> {
  using type = float;
};
template <>
struct ElementOfKind<element_float64> {
  using type = double;
};

// The unsigned type of the size, the largest finite value, and of 16-bit types the bits of exponent and mantissa.
template <class T>
struct Format;
template <>
struct Format<__bf16> {
  using Bits = unsigned short;
  static constexpr int exponent = 8, mantissa = 7;
  static constexpr float largest = 0x1.fep127f;
};
template <>
struct Format<_Float16> {
  using Bits = unsigned short;
  static constexpr int exponent = 5, mantissa = 10;
  static constexpr float largest = 65504.f;
};
template <>
struct Format<float> {
  using Bits = uint32;
  static constexpr float largest = 0x1.fffffep127f;
};
template <>
struct Format<double> {
  using Bits = uint64;
  static constexpr double largest = 0x1.fffffffffffffp1023;
};

template <class T>
using Bits = typename Format<T>::Bits;

}  // namespace rocke

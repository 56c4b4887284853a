// Integer, vector and pointer types; no standard header, since hipRTC finds none on some installations (CuPy issue 9718).
#pragma once

namespace rocke {

using int32 = int;
using uint32 = unsigned;
using int64 = long long;
using uint64 = unsigned long long;

template <class T, int N>
using vec = T __attribute__((ext_vector_type(N)));

using f32x2 = vec<float, 2>;
using f32x4 = vec<float, 4>;
using f32x16 = vec<float, 16>;
using u32x2 = vec<uint32, 2>;

// The two 16-bit element types, chosen by Variant::bfloat16.
template <bool bfloat16>
struct ElementOf {
  using type = __bf16;
};
template <>
struct ElementOf<false> {
  using type = _Float16;
};
template <class V>
using Element = typename ElementOf<V::bfloat16>::type;

template <bool condition, class A, class B>
struct Choose {
  using type = A;
};
template <class A, class B>
struct Choose<false, A, B> {
  using type = B;
};

// A type at any address: a gfx950 accesses memory unaligned, but for scalar loads.
template <class T>
using Unaligned = T __attribute__((aligned(1)));

// LDS addresses are 32 bits. They are formed once from an array and then only added to: a cast of `array + offset` goes
// through a generic pointer and costs a null check for each LDS DMA.
using LdsBytes = __attribute__((address_space(3))) char*;
template <class T>
using LdsPointer = __attribute__((address_space(3))) T*;

template <class To, class From>
__device__ __forceinline__ To bit_cast(From value) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  return __builtin_bit_cast(To, value);
}

}  // namespace rocke

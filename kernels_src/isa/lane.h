// Work item, wave and cross-lane instructions.
#pragma once
#include "common/types.h"

namespace rocke {

__device__ __forceinline__ int work_item_id() { return __builtin_amdgcn_workitem_id_x(); }

// Linear over the three axes of the grid.
__device__ __forceinline__ int workgroup_id() {
  return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

// The lane's number, counted afresh at each call (v_mbcnt): it costs two instructions and no register in between.
__device__ __forceinline__ int lane_id() {
  uint32 all = ~0u;
  asm volatile("" : "+s"(all));
  return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(all, 0));
}

// The block of kernel arguments where it lies, for arrays in it that are indexed at run time,
template <class T>
using ConstantPointer = const __attribute__((address_space(4))) T*;
template <class T>
__device__ __forceinline__ ConstantPointer<T> kernel_arguments_in_place() {
  return (ConstantPointer<T>)__builtin_amdgcn_kernarg_segment_ptr();
}
// and loaded at this point.
template <class T>
__device__ __forceinline__ T kernel_arguments() {
  auto address = kernel_arguments_in_place<T>();
  asm volatile("" : "+s"(address));
  return *address;
}

// Values of scalar registers that must be there at this point: arguments which the compiler would load each where it is used.
template <class... T>
__device__ __forceinline__ void need_now(T... values) {
  ([](auto value) { asm volatile("" ::"s"(value)); }(values), ...);
}

// A value that is the same in all lanes, moved to a scalar register.
__device__ __forceinline__ int uniform(int value) { return __builtin_amdgcn_readfirstlane(value); }
__device__ __forceinline__ float uniform(float value) { return bit_cast<float>(uniform(bit_cast<int>(value))); }

// The same value, of which the compiler knows nothing: it neither keeps in registers what follows from it, nor takes it apart.
template <class T>
__device__ __forceinline__ T opaque(T value) {
  asm volatile("" : "+v"(value));
  return value;
}

// The same for a value in a scalar register.
template <class T>
__device__ __forceinline__ T opaque_scalar(T value) {
  asm volatile("" : "+s"(value));
  return value;
}

__device__ __forceinline__ bool any_lane(bool condition) { return __builtin_amdgcn_ballot_w64(condition) != 0; }

// {lower half of a, lower half of b}, {upper half of a, upper half of b}, as lanes 0..31 and 32..63 of the two results.
__device__ __forceinline__ u32x2 swap_halves(uint32 a, uint32 b) {
  return __builtin_amdgcn_permlane32_swap(a, b, false, false);
}

// The value of lane l ^ 32 beside one's own, as an unordered pair.
__device__ __forceinline__ f32x2 both_halves(float value) {
  const uint32 bits = bit_cast<uint32>(value);
  return bit_cast<f32x2>(swap_halves(bits, bits));
}

}  // namespace rocke

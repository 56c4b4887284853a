// Buffer resources and the LDS DMA that goes through them.
#pragma once
#include "common/types.h"

namespace rocke {

using BufferResource = __amdgpu_buffer_rsrc_t;

// A raw buffer of `bytes` bytes: a load at or past the end gives zero, which is how tails are padded.
__device__ __forceinline__ BufferResource make_buffer(const void* base, uint32 bytes) {
  constexpr int raw_dword_format = 0x00027000;
  return __builtin_amdgcn_make_buffer_rsrc(const_cast<void*>(base), 0, bytes, raw_dword_format);
}

// Lane i copies 16 bytes from buffer + lane_offset + wave_offset + step to LDS at destination + step + 16 * i. The
// immediate moves both addresses (facts of the instruction), so callers subtract `step` from the destination.
// Counts one in vmcnt. Lanes out of range write zeros.
template <int step>
__device__ __forceinline__ void dma_b128_to_lds(BufferResource buffer, LdsBytes destination, uint32 lane_offset,
                                                uint32 wave_offset) {
  __builtin_amdgcn_raw_ptr_buffer_load_lds(buffer, (LdsPointer<void>)destination, 16, lane_offset, wave_offset, step, 0);
}

// Lane i stores 16 bytes at buffer + lane_offset + wave_offset, or nothing where they are out of range.
__device__ __forceinline__ void store_b128(vec<uint32, 4> value, BufferResource buffer, uint32 lane_offset, uint32 wave_offset) {
  __builtin_amdgcn_raw_buffer_store_b128(value, buffer, lane_offset, wave_offset, 0);
}

// An offset that no buffer contains: what is there reads zeros, and is not stored.
constexpr uint32 nowhere = 0x80000000;

}  // namespace rocke

// LDS reads, as assembly: the compiler then adds no wait for the LDS DMA that it cannot tell apart (LLVM 20 and 21 drain vmcnt
// before each builtin read), and none between MFMAs. So a caller waits itself, with wait_counters, and then passes what it read
// through `opaque`, above which no use of it can move. Offsets are template arguments: each is the 16-bit immediate of its
// instruction.
#pragma once
#include "common/types.h"

namespace rocke {

// ds_read_b128: eight 16-bit elements.
template <int offset, class T>
__device__ __forceinline__ vec<T, 8> lds_read_b128(uint32 base) {
  static_assert(offset >= 0 && offset < 65536, "a 16-bit immediate");
  vec<T, 8> value;
  asm volatile("ds_read_b128 %0, %1 offset:%2" : "=v"(value) : "v"(base), "n"(offset));
  return value;
}

// ds_read_b64_tr_b16: in each group of 16 lanes, lane j names 8 bytes (row j / 4, columns 4 * (j % 4)..+3 of a 4 x 16 block)
// and receives column j of the block, rows 0..3. EXEC must be all ones.
template <int offset, class T>
__device__ __forceinline__ vec<T, 4> lds_read_transposed(uint32 base) {
  static_assert(offset >= 0 && offset < 65536, "a 16-bit immediate");
  vec<T, 4> value;
  asm volatile("ds_read_b64_tr_b16 %0, %1 offset:%2" : "=v"(value) : "v"(base), "n"(offset));
  return value;
}

// ds_write_b64 and ds_write_b128. LDS serves a wave's requests in their order, so that a read after them needs no wait; as
// assembly they too are waited for by hand.
template <int offset>
__device__ __forceinline__ void lds_write(uint32 base, vec<uint32, 2> value) {
  static_assert(offset >= 0 && offset < 65536, "a 16-bit immediate");
  asm volatile("ds_write_b64 %0, %1 offset:%2" ::"v"(base), "v"(value), "n"(offset) : "memory");
}
template <int offset>
__device__ __forceinline__ void lds_write(uint32 base, vec<uint32, 4> value) {
  static_assert(offset >= 0 && offset < 65536, "a 16-bit immediate");
  asm volatile("ds_write_b128 %0, %1 offset:%2" ::"v"(base), "v"(value), "n"(offset) : "memory");
}

}  // namespace rocke

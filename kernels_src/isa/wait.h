// Wait counters, barriers and the scheduler's fences.
#pragma once

namespace rocke {

// The largest counts, which wait for nothing.
constexpr int any_vm = 63, any_lgkm = 15;

// s_waitcnt vmcnt(vm) lgkmcnt(lgkm). The encoding splits vmcnt: bits 3:0 and 15:14; expcnt (bits 6:4) is left at its maximum.
template <int vm, int lgkm>
__device__ __forceinline__ void wait_counters() {
  static_assert(vm >= 0 && vm <= any_vm && lgkm >= 0 && lgkm <= any_lgkm, "counter out of the field");
  __builtin_amdgcn_s_waitcnt((vm & 15) | ((vm >> 4) << 14) | (7 << 4) | (lgkm << 8));
}

// Nothing moves across, for the instruction scheduler.
__device__ __forceinline__ void schedule_fence() { __builtin_amdgcn_sched_barrier(0); }

// So many wait states, where the compiler does not see that an instruction needs them.
template <int states>
__device__ __forceinline__ void rest() {
  schedule_fence();
  asm volatile("s_nop %0" ::"n"((states < 8 ? states : 8) - 1));
  if constexpr (states > 8) rest<states - 8>();
  schedule_fence();
}

// A bare s_barrier, without the waits that __syncthreads adds (they would drain the prefetch). The builtin alone does not
// order memory for the compiler: LLVM sinks LDS reads across it, a race that the virtual device reports.
__device__ __forceinline__ void barrier() {
  schedule_fence();
  asm volatile("" ::: "memory");
  __builtin_amdgcn_s_barrier();
  asm volatile("" ::: "memory");
  schedule_fence();
}

template <int priority>
__device__ __forceinline__ void set_priority() {
  __builtin_amdgcn_s_setprio(priority);
}

}  // namespace rocke

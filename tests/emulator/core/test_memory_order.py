"""Vector memory of the waves of a workgroup: what was issued earlier is seen, what later is not."""

import numpy as np
import pytest

from rocke_cupy.emulator import hiprtc, run
from rocke_cupy.emulator.assemble import assemble_kernel

ROCM = ("7.0", "7.14")
MEMORIES = ("eager", "lazy")
SCHEDULES = ("lockstep", "to_barrier", "random")
KERNELS = (
    "store_then_load", "load_then_store", "atomic_then_load", "load_then_atomic",
    "atomic_by_generic_pointer",
)  # fmt: skip

# Neither compiler waits for the store, the load or the atomic before the barrier: all waves of a
# workgroup have one L1 cache.
SOURCE = """
#define KERNEL extern "C" __global__ __launch_bounds__(256) void
KERNEL store_then_load(int* x, int* y) {
    int i = threadIdx.x;
    x[i] = 3 * i;
    __syncthreads();
    y[i] = x[255 - i];
}
KERNEL load_then_store(int* x, int* y) {
    int i = threadIdx.x;
    int v = y[255 - i];
    __syncthreads();
    y[i] = v;
}
KERNEL atomic_then_load(int* x, int* y) {
    int i = threadIdx.x;
    atomicAdd(&x[i], 3 * i);
    __syncthreads();
    y[i] = x[255 - i];
}
KERNEL load_then_atomic(int* x, int* y) {
    int i = threadIdx.x;
    int v = y[255 - i];
    __syncthreads();
    atomicExch(&y[i], v);
}
KERNEL atomic_by_generic_pointer(int* x, int* y) {
    __shared__ int tile[256];
    int i = threadIdx.x;
    tile[i] = 0;
    int* p = y[i] < 0 ? &x[i] : &tile[i];
    atomicAdd(p, 3 * i);
    __syncthreads();
    y[i] = tile[255 - i];
}
"""


@pytest.fixture(scope="module", params=ROCM)
def code(request) -> bytes:
    return hiprtc.compile(SOURCE, rocm=request.param).code


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", KERNELS)
def test_a_barrier_orders_memory_without_a_wait(code, name, memory, schedule):
    x, y = np.zeros(256, np.int32), 3 * np.arange(256, dtype=np.int32)
    run(code, name, (1,), (256,), [x, y], memory=memory, schedule=schedule)
    np.testing.assert_array_equal(y, 3 * np.arange(255, -1, -1))


# Wave 0 asks for LDS DMA, wave 1 then changes what it reads.
DMA = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshrrev_b32_e32 v2, 6, v0
  v_and_b32_e32 v1, 63, v0
  v_lshlrev_b32_e32 v1, 2, v1
  s_mov_b32 m0, 0
  s_waitcnt lgkmcnt(0)
  v_readfirstlane_b32 s8, v2
  s_cmp_eq_u32 s8, 0
  s_cbranch_scc0 other
  global_load_lds_dword v1, s[4:5]
  s_barrier
  s_barrier
  ds_read_b32 v3, v1
  s_waitcnt lgkmcnt(0)
  s_waitcnt vmcnt(0)
  ds_read_b32 v4, v1
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v3, s[4:5] offset:256
  global_store_dword v1, v4, s[4:5] offset:512
  s_endpgm
other:
  s_barrier
  global_store_dword v1, v0, s[4:5]
  s_waitcnt vmcnt(0)
  s_barrier
  s_endpgm
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lds_dma_reads_in_order_and_lands_at_its_wait(schedule):
    x = np.arange(1000, 1192, dtype=np.uint32)
    code = assemble_kernel("k", DMA, lds_size=256)
    run(code, "k", (1,), (128,), [x], memory="lazy", schedule=schedule, races=False)
    np.testing.assert_array_equal(x[:64], np.arange(64, 128))
    assert set(x[64:128].tolist()) == {0x7FF97FF9}  # nothing has landed
    np.testing.assert_array_equal(x[128:], np.arange(1000, 1064))

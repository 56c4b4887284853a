"""Addresses that are no multiples: which accesses may have them, and what is said of the others."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, hiprtc, run
from rocke_cupy.emulator.execution.memory import Buffer
from rocke_cupy.emulator.step import State, step

LANES = np.arange(64, dtype=np.uint32)
M0 = 124
DEVICE = 0x2000_0000_0000


class Memory:
    """v2 and v[6:7] lead to places 16 bytes apart, from `offset` on, in LDS and in memory.

    On the host the memory starts `host` bytes past a multiple of eight.
    """

    def __init__(self, offset: int, host: int = 0):
        memory = np.zeros(2048, np.uint64).view(np.uint8)
        assert memory.ctypes.data % 8 == 0
        self.bytes = memory[host : memory.size - 8 + host]
        self.state = State(lds=np.zeros(2048, np.uint8))
        places = DEVICE + offset + 16 * LANES.astype(np.uint64)
        self.state.v[2] = offset + 16 * LANES
        self.state.v[6], self.state.v[7] = places & 0xFFFFFFFF, places >> 32
        self.state.v[4], self.state.v[5] = offset + 16 * LANES, 0x10000  # LDS, as flat sees it
        self.state.set64(8, DEVICE)
        self.state.s[10:12] = self.bytes.size, 0x27000
        self.state.s[M0] = offset

    def step(self, text: str) -> State:
        memory = Buffer(DEVICE, self.bytes.size, "memory", host=self.bytes.ctypes.data)
        step(text, self.state, buffers=[memory])
        return self.state


ANYWHERE = [
    "global_load_dwordx4 v[12:15], v[6:7], off",
    "global_store_dwordx3 v[6:7], v[12:14], off",
    "global_load_ushort v12, v[6:7], off",
    "buffer_load_dwordx2 v[12:13], v2, s[8:11], 0 offen",
    "buffer_store_short v12, v2, s[8:11], 0 offen",
    "flat_load_dwordx2 v[12:13], v[4:5]",
    "ds_read_b128 v[12:15], v2",
    "ds_write_b64 v2, v[12:13]",
    "ds_read2_b32 v[12:13], v2 offset1:1",
    "ds_write_b16 v2, v12",
]
ATOMICS = {
    4: [
        "global_atomic_add v[6:7], v12, off",
        "global_atomic_pk_add_f16 v[6:7], v12, off",
        "global_atomic_cmpswap v[6:7], v[12:13], off",
        "flat_atomic_swap v[6:7], v12",
        "flat_atomic_add_f32 v[4:5], v12",
        "buffer_atomic_umax v12, v2, s[8:11], 0 offen",
        "ds_add_u32 v2, v12",
        "ds_cmpst_rtn_b32 v14, v2, v12, v13",
        "ds_append v14",
    ],
    8: [
        "global_atomic_add_f64 v[6:7], v[12:13], off",
        "flat_atomic_inc_x2 v[4:5], v[12:13]",
        "buffer_atomic_cmpswap_x2 v[12:15], v2, s[8:11], 0 offen",
        "ds_max_u64 v2, v[12:13]",
        "ds_wrxchg_rtn_b64 v[14:15], v2, v[12:13]",
    ],
}


@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize("text", ANYWHERE)
def test_loads_and_stores_go_to_any_byte(text, offset):
    Memory(offset).step(text)


@pytest.mark.parametrize(("size", "text"), [(n, t) for n, texts in ATOMICS.items() for t in texts])
def test_atomics_lie_at_multiples_of_their_size(size, text):
    Memory(size).step(text)
    for offset in {1, 2, size // 2, size - 1}:
        with pytest.raises(EmulationError) as caught:
            Memory(offset).step(text)
        text_of = f"atomic: its address is {offset} bytes past a multiple of {size}"
        assert text_of in str(caught.value)
        assert caught.value.lane == 0


@pytest.mark.parametrize("text", ATOMICS[4])
def test_the_address_of_the_device_decides(text):
    Memory(4, host=2).step(text)
    with pytest.raises(EmulationError, match="its address is 2 bytes past"):
        Memory(2, host=2).step(text)


def test_lanes_that_are_off_or_out_of_range_may_point_anywhere():
    for text in ("global_atomic_add v[6:7], v12, off", "ds_add_u32 v2, v12"):
        m = Memory(2)
        m.state.set64("exec", 0)
        m.step(text)
    m = Memory(2)
    m.state.s[10] = 0
    m.step("buffer_atomic_add v12, v2, s[8:11], 0 offen")


def test_transposed_reads_lie_at_multiples_of_eight():
    Memory(8).step("ds_read_b64_tr_b16 v[12:13], v2")
    for offset in (2, 4):
        with pytest.raises(EmulationError, match=f"transposed read: its address is {offset} bytes"):
            Memory(offset).step("ds_read_b64_tr_b16 v[12:13], v2")


def test_scalar_loads_lie_at_dwords():
    Memory(0).step("s_load_dwordx2 s[20:21], s[8:9], 0x4")
    m = Memory(0)
    m.state.s[20] = 2
    with pytest.raises(EmulationError, match=r"scalar load, .*: its address is 2 bytes past"):
        m.step("s_load_dword s21, s[8:9], s20")
    m.state.s[8] += 3
    with pytest.raises(EmulationError, match=r"scalar load, .*: its address is 3 bytes past"):
        m.step("s_load_dwordx4 s[20:23], s[8:9], 0x0")


def test_lds_dma_lands_at_dwords():
    Memory(4).step("global_load_lds_dword v[6:7], off")
    with pytest.raises(EmulationError, match="place of LDS DMA: its address is 2 bytes past"):
        Memory(2).step("global_load_lds_dwordx4 v[6:7], off")


def test_it_is_reported_at_its_line():
    source = """
extern "C" __global__ __launch_bounds__(64) void k(char* x) {
    x[threadIdx.x] = 0;
    __hip_atomic_fetch_add((int*)(x + 2), 1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
"""
    code = hiprtc.compile(source, ["-gline-tables-only"]).code
    with pytest.raises(EmulationError, match=r"kernel\.hip:4\)") as caught:
        run(code, "k", (1,), (64,), [np.zeros(64, np.uint32)])
    assert caught.value.kind == "alignment"
    assert "misaligned atomic" in str(caught.value)

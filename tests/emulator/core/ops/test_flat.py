"""Global, flat, scratch and scalar memory: addresses, sizes, bounds, atomics."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, run
from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.execution.memory import Buffer
from rocke_cupy.emulator.step import State, step

LANES = np.arange(64, dtype=np.uint32)
M0 = 124


class Memory:
    """An array whose address is in s[8:9] and, lane by lane 16 bytes apart, in v[2:3]."""

    def __init__(self, size: int = 4096, lds: int = 0):
        self.bytes = (np.arange(size) % 251).astype(np.uint8)
        self.before = self.bytes.copy()
        self.address = self.bytes.ctypes.data
        self.state = State(lds=np.full(lds, 0xEE, np.uint8))
        self.state.set64(8, self.address)
        self.point(self.address + 16 * LANES.astype(np.uint64))
        self.state.v[4] = 16 * LANES
        self.state.v[8:12] = 0xAAAAAAAA

    def point(self, addresses: np.ndarray) -> None:
        self.state.v[2], self.state.v[3] = addresses & 0xFFFFFFFF, addresses >> 32

    def step(self, text: str) -> State:
        step(text, self.state, buffers=[Buffer(self.address, self.bytes.size, "memory")])
        return self.state

    def dwords(self, offset: int) -> list[int]:
        at = 16 * LANES + offset
        return [int(self.before[a : a + 4].view(np.uint32)[0]) for a in at]


@pytest.mark.parametrize(
    ("family", "address"),
    [("global", "v[2:3], off"), ("global", "v4, s[8:9]"), ("flat", "v[2:3]")],
)
class TestDwords:
    @pytest.mark.parametrize("width", [1, 2, 3, 4])
    def test_loads(self, family, address, width):
        m = Memory()
        suffix, registers = (f"x{width}", f"v[8:{7 + width}]") if width > 1 else ("", "v8")
        m.step(f"{family}_load_dword{suffix} {registers}, {address} offset:20")
        for k in range(width):
            np.testing.assert_array_equal(m.state.v[8 + k], m.dwords(20 + 4 * k))

    @pytest.mark.parametrize("width", [1, 2, 3, 4])
    def test_stores(self, family, address, width):
        m = Memory()
        suffix, registers = (f"x{width}", f"v[8:{7 + width}]") if width > 1 else ("", "v8")
        where = [part.strip() for part in address.split(",")]
        m.state.set64("exec", 0b110)
        m.step(f"{family}_store_dword{suffix} " + ", ".join([where[0], registers, *where[1:]]))
        changed = np.flatnonzero(m.bytes != m.before)
        expected = np.r_[16 : 16 + 4 * width, 32 : 32 + 4 * width]
        np.testing.assert_array_equal(changed, expected)
        assert (m.bytes[expected] == 0xAA).all()


def test_negative_offsets_and_scalar_bases_beyond_32_bits():
    m = Memory()
    m.point(m.address + 4096 + 16 * LANES.astype(np.uint64) - 1024)
    m.step("global_load_dword v8, v[2:3], off offset:-3072")
    np.testing.assert_array_equal(m.state.v[8], m.dwords(0))


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("ubyte", 0x000000F9),
        ("sbyte", 0xFFFFFFF9),
        ("ushort", 0x0000FAF9),
        ("sshort", 0xFFFFFAF9),
        ("short_d16", 0xAAAAFAF9),
        ("short_d16_hi", 0xFAF9AAAA),
        ("ubyte_d16_hi", 0x00F9AAAA),
        ("sbyte_d16", 0xAAAAFFF9),
    ],
)
def test_loads_of_less_than_a_dword(name, result):
    m = Memory()
    m.state.v[4] = 249
    m.step(f"global_load_{name} v8, v4, s[8:9]")
    assert hex(int(m.state.v[8, 0])) == hex(result)


class TestBounds:
    def test_one_byte_too_many(self):
        m = Memory(63 * 16 + 15)
        with pytest.raises(EmulationError, match="global read of 16 bytes") as caught:
            m.step("global_load_dwordx4 v[8:11], v[2:3], off")
        assert caught.value.lane == 63
        Memory(63 * 16 + 16).step("global_load_dwordx4 v[8:11], v[2:3], off")

    def test_lanes_that_are_off_may_point_anywhere(self):
        m = Memory(64)
        m.state.set64("exec", 0b1111)
        m.step("global_load_dwordx4 v[8:11], v[2:3], off")

    def test_null(self):
        m = Memory()
        m.point(np.zeros(64, np.uint64))
        with pytest.raises(EmulationError, match="global write of 4 bytes"):
            m.step("global_store_dword v[2:3], v8, off")


class TestFlatApertures:
    def test_lds(self):
        m = Memory(lds=256)
        m.state.lds[:] = np.arange(256)
        m.state.v[2], m.state.v[3] = 4 * LANES, 0x10000
        m.step("flat_load_dword v8, v[2:3]")
        np.testing.assert_array_equal(m.state.v[8], m.state.lds.view(np.uint32))
        m.step("flat_store_dword v[2:3], v4")
        np.testing.assert_array_equal(m.state.lds.view(np.uint32), m.state.v[4])

    def test_lds_bounds(self):
        m = Memory(lds=255)
        m.state.v[2], m.state.v[3] = 4 * LANES, 0x10000
        with pytest.raises(EmulationError, match="flat LDS access of 4 bytes at address 252"):
            m.step("flat_load_dword v8, v[2:3]")

    def test_lanes_may_mix_spaces(self):
        m = Memory(lds=256)
        m.state.v[2, ::2], m.state.v[3, ::2] = 4 * LANES[::2], 0x10000
        m.step("flat_load_dword v8, v[2:3]")
        assert (m.state.v[8, ::2] == 0xEEEEEEEE).all()
        np.testing.assert_array_equal(m.state.v[8, 1::2], m.dwords(0)[1::2])


class TestGlobalToLds:
    @pytest.mark.parametrize(
        ("suffix", "size", "stride"), [("dword", 4, 4), ("dwordx3", 12, 16), ("dwordx4", 16, 16)]
    )
    def test_lanes_land_one_after_the_other_from_m0(self, suffix, size, stride):
        m = Memory(lds=64 * 16 + 256)
        m.state.s[M0] = 64
        m.step(f"global_load_lds_{suffix} v[2:3], off offset:4")
        expected = np.full(64 * 16 + 256, 0xEE)
        for lane in range(64):
            at, source = 64 + 4 + stride * lane, 16 * lane + 4
            expected[at : at + size] = m.bytes[source : source + size]
        np.testing.assert_array_equal(m.state.lds, expected)


ATOMICS_32 = [
    ("swap", 5, 7, 7), ("add", 0xFFFFFFFF, 2, 1), ("sub", 1, 2, 0xFFFFFFFF),
    ("smin", 0xFFFFFFFF, 1, 0xFFFFFFFF), ("smax", 0xFFFFFFFF, 1, 1),
    ("umin", 0xFFFFFFFF, 1, 1), ("umax", 0xFFFFFFFF, 1, 0xFFFFFFFF), ("and", 12, 10, 8),
    ("or", 12, 10, 14), ("xor", 12, 10, 6), ("inc", 5, 5, 0), ("dec", 0, 5, 5),
    ("add_f32", 0x3F800000, 0x40000000, 0x40400000),
    ("pk_add_f16", 0x40003C00, 0x3C003C00, 0x42004000),
    ("pk_add_bf16", 0x40003F80, 0x3F803F80, 0x40404000),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "data", "result"), ATOMICS_32)
@pytest.mark.parametrize("returns", [True, False])
def test_atomics(name, old, data, result, returns):
    m = Memory()
    m.bytes.view(np.uint32)[:] = old
    m.state.v[8] = data
    destination, policy = ("v9, ", " sc0") if returns else ("", "")
    m.step(f"global_atomic_{name} {destination}v4, v8, s[8:9]{policy}")
    np.testing.assert_array_equal(m.bytes.view(np.uint32)[:256:4], result)
    np.testing.assert_array_equal(m.state.v[9], old if returns else 0xAAAAAAAA)


@pytest.mark.parametrize(
    ("name", "old", "data", "result"),
    [
        ("add_x2", 0xFFFFFFFF, 1, 1 << 32),
        ("umax_x2", 1 << 40, 5, 1 << 40),
        ("inc_x2", 0xFFFFFFFF, 1 << 40, 1 << 32),
        ("dec_x2", 0, 1 << 40, 1 << 40),
        ("add_f64", 0x3FF0 << 48, 0x4000 << 48, 0x4008 << 48),
        ("max_f64", 0x3FF0 << 48, 0x4000 << 48, 0x4000 << 48),
    ],
)
def test_atomics_of_64_bits(name, old, data, result):
    m = Memory()
    m.bytes.view(np.uint64)[:] = old
    m.state.v[8], m.state.v[9] = data & 0xFFFFFFFF, data >> 32
    m.step(f"global_atomic_{name} v4, v[8:9], s[8:9]")
    np.testing.assert_array_equal(m.bytes.view(np.uint64)[:128:2], result)


def test_compare_and_swap():
    m = Memory()
    m.bytes.view(np.uint32)[:] = LANES.repeat(16)
    m.state.v[8], m.state.v[9] = 1000, 5  # the new value, the value to find
    m.step("global_atomic_cmpswap v10, v4, v[8:9], s[8:9] sc0")
    memory = m.bytes.view(np.uint32)[:256:4]
    np.testing.assert_array_equal(m.state.v[10], LANES // 4)
    np.testing.assert_array_equal(memory, np.where(LANES // 4 == 5, 1000, LANES // 4))


class TestScalarLoads:
    def test_offsets(self):
        m = Memory()
        m.state.s[20] = 64
        m.step("s_load_dwordx4 s[24:27], s[8:9], 0x20")
        np.testing.assert_array_equal(m.state.s[24:28], m.bytes[32:48].view(np.uint32))
        m.step("s_load_dwordx2 s[24:25], s[8:9], s20")
        np.testing.assert_array_equal(m.state.s[24:26], m.bytes[64:72].view(np.uint32))
        m.step("s_load_dword s24, s[8:9], s20 offset:0x8")
        assert m.state.s[24] == m.bytes[72:76].view(np.uint32)[0]

    def test_bounds(self):
        with pytest.raises(EmulationError, match="global read of 32 bytes"):
            Memory(28).step("s_load_dwordx8 s[24:31], s[8:9], 0x0")


class TestScratch:
    body = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  v_mov_b32_e32 v4, 8
  s_mov_b32 s6, 4
  scratch_store_dwordx2 off, v[0:1], off offset:16
  scratch_store_dword v4, v1, s6
  s_waitcnt vmcnt(0) lgkmcnt(0)
  scratch_load_dword v2, off, s6 offset:{offset}
  s_waitcnt vmcnt(0)
  global_store_dword v1, v2, s[4:5]
  s_endpgm
"""

    @pytest.mark.parametrize(
        ("offset", "expected"), [(12, LANES), (16, 4 * LANES), (8, 4 * LANES), (0, 0x7FF97FF9)]
    )
    def test_each_lane_has_its_own(self, offset, expected):
        out = np.zeros(64, np.uint32)
        code = assemble_kernel("k", self.body.format(offset=offset), scratch_size=32)
        run(code, "k", (1,), (64,), [out])
        np.testing.assert_array_equal(out, expected)

    def test_bounds(self):
        code = assemble_kernel("k", self.body.format(offset=28), scratch_size=32)
        with pytest.raises(EmulationError, match="offset 32 is outside the 32 bytes of a lane"):
            run(code, "k", (1,), (64,), [np.zeros(64, np.uint32)])

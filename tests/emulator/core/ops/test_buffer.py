"""Buffer instructions: addresses, the range check, LDS DMA."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError
from rocke_cupy.emulator.execution.memory import Buffer
from rocke_cupy.emulator.step import State, step

LANES = np.arange(64, dtype=np.uint32)
M0 = 124


class Memory:
    """An array behind a buffer resource in s[8:11], with v2 as the lanes' offsets."""

    def __init__(self, size: int, records: int | None = None, pitch: int = 4, lds: int = 0):
        self.bytes = (np.arange(size) % 251).astype(np.uint8)
        self.before = self.bytes.copy()
        self.buffers = [Buffer(self.bytes.ctypes.data, size, "memory")]
        self.state = State(lds=np.full(lds, 0xEE, np.uint8))
        self.state.set64(8, self.bytes.ctypes.data)
        self.state.s[10] = size if records is None else records
        self.state.s[11] = 0x00027000
        self.state.v[2] = pitch * LANES
        self.state.v[8:12] = 0xAAAAAAAA

    def step(self, text: str) -> State:
        step(text, self.state, buffers=self.buffers)
        return self.state

    def dword(self, at: int) -> int:
        return int.from_bytes(self.before[at : at + 4].tobytes(), "little")


@pytest.mark.parametrize(("suffix", "width"), [("", 1), ("x2", 2), ("x3", 3), ("x4", 4)])
class TestDwords:
    def registers(self, width):
        return f"v[8:{7 + width}]" if width > 1 else "v8"

    def test_loads_add_all_offsets(self, suffix, width):
        m = Memory(4096, pitch=16)
        m.state.s[12] = 100
        m.step(
            f"buffer_load_dword{suffix} {self.registers(width)}, v2, s[8:11], s12 offen offset:8"
        )
        for k in range(width):
            expected = [m.dword(100 + 8 + 16 * lane + 4 * k) for lane in range(64)]
            np.testing.assert_array_equal(m.state.v[8 + k], expected)

    def test_any_byte_may_be_the_first(self, suffix, width):
        m = Memory(4096, pitch=17)
        m.step(f"buffer_load_dword{suffix} {self.registers(width)}, v2, s[8:11], 0 offen offset:3")
        for k in range(width):
            expected = [m.dword(17 * lane + 3 + 4 * k) for lane in range(64)]
            np.testing.assert_array_equal(m.state.v[8 + k], expected)

    def test_registers_past_the_record_count_load_zero(self, suffix, width):
        m = Memory(4096, records=16 * 10 + 8, pitch=16)
        m.step(f"buffer_load_dword{suffix} {self.registers(width)}, v2, s[8:11], 0 offen")
        for k in range(width):
            assert m.state.v[8 + k, 9] == m.dword(16 * 9 + 4 * k)
            assert m.state.v[8 + k, 10] == (m.dword(160 + 4 * k) if k < 2 else 0)
            assert not m.state.v[8 + k, 11:].any()

    def test_stores_past_the_record_count_drop(self, suffix, width):
        m = Memory(4096, records=16 * 10 + 8, pitch=16)
        m.step(f"buffer_store_dword{suffix} {self.registers(width)}, v2, s[8:11], 0 offen")
        written = m.bytes != m.before
        for lane in range(12):
            for k in range(4):
                at = 16 * lane + 4 * k
                inside = k < width and at < 16 * 10 + 8
                assert (m.bytes[at : at + 4] == 0xAA).all() == inside
        assert not written[16 * 10 + 8 :].any()

    def test_memory_behind_the_record_count_is_never_touched(self, suffix, width):
        m = Memory(16 * 10 + 8, pitch=16)  # the buffer ends where the records end
        m.step(f"buffer_load_dword{suffix} {self.registers(width)}, v2, s[8:11], 0 offen")


class TestRangeCheck:
    def test_the_scalar_offset_counts(self):
        m = Memory(1024, records=256)
        m.state.s[12] = 128
        m.step("buffer_load_dword v8, v2, s[8:11], s12 offen")
        assert m.state.v[8, 31] == m.dword(128 + 124)
        assert not m.state.v[8, 32:].any()

    def test_a_scalar_offset_past_the_records_leaves_nothing(self):
        m = Memory(1024, records=256)
        m.state.s[12] = 0xFFFFFF00
        m.step("buffer_load_dword v8, v2, s[8:11], s12 offen")
        assert not m.state.v[8].any()

    def test_the_constant_offset_counts(self):
        m = Memory(1024, records=256)
        m.step("buffer_load_dword v8, v2, s[8:11], 0 offen offset:252")
        assert m.state.v[8, 0] == m.dword(252)
        assert not m.state.v[8, 1:].any()

    @pytest.mark.parametrize("records", [253, 254, 255])
    def test_a_dword_must_end_within_the_records(self, records):
        m = Memory(1024, records=records)
        m.step("buffer_load_dword v8, v2, s[8:11], 0 offen")
        assert m.state.v[8, 62] == m.dword(248)
        assert m.state.v[8, 63] == 0

    def test_lane_and_constant_offset_wrap_at_32_bits(self):
        m = Memory(1024)
        m.state.v[2] = 0xFFFFFFF8
        m.step("buffer_load_dword v8, v2, s[8:11], 0 offen offset:12")
        np.testing.assert_array_equal(m.state.v[8], m.dword(4))

    def test_negative_lane_offsets_are_huge(self):
        m = Memory(1024)
        m.state.v[2] = 0xFFFFFFF0
        m.step("buffer_load_dword v8, v2, s[8:11], 0 offen")
        assert not m.state.v[8].any()

    def test_without_offen_all_lanes_read_one_place(self):
        m = Memory(1024)
        m.step("buffer_load_dword v8, off, s[8:11], 0 offset:40")
        np.testing.assert_array_equal(m.state.v[8], m.dword(40))

    def test_records_that_promise_more_than_there_is(self):
        m = Memory(256, records=1024)
        m.state.v[2] = 8 * LANES
        with pytest.raises(EmulationError, match="global read of 4 bytes") as caught:
            m.step("buffer_load_dword v8, v2, s[8:11], 0 offen")
        assert caught.value.lane == 32

    # a stride, cache swizzle with and without it, and both swizzles, as HipKittens sets them
    @pytest.mark.parametrize("word", [0x01000000, 0x40000000, 0x41000000, 0xC1000000])
    def test_without_an_index_stride_and_swizzle_move_nothing(self, word):
        m = Memory(1024, records=256 - 8)
        m.state.s[9] |= np.uint32(word)
        m.step("buffer_load_dword v8, v2, s[8:11], 0 offen")
        assert m.state.v[8].tolist() == [m.dword(4 * lane) for lane in range(62)] + [0, 0]
        m.step("buffer_store_dword v8, v2, s[8:11], 0 offen offset:4")
        assert m.bytes[4 : 63 * 4 - 4].tolist() == m.before[: 62 * 4 - 4].tolist()
        np.testing.assert_array_equal(m.bytes[62 * 4 :], m.before[62 * 4 :])


def with_stride(m, stride, *, swizzles=False, adds_thread=False, index_stride=0):
    m.state.s[9] |= np.uint32((stride & 0x3FFF) << 16 | swizzles << 31)
    if adds_thread:
        m.state.s[11] = (stride >> 14) << 15 | index_stride << 21 | 1 << 23
    return m


class TestRecords:
    def test_an_index_counts_records(self):
        m = with_stride(Memory(4096), 24)
        m.state.v[2] = 2 * LANES
        m.state.s[12] = 100
        m.step("buffer_load_dword v8, v2, s[8:11], s12 idxen offset:8")
        expected = [m.dword(100 + 8 + 48 * lane) for lane in range(64)]
        np.testing.assert_array_equal(m.state.v[8], expected)

    def test_the_offset_follows_the_index(self):
        m = with_stride(Memory(4096), 32)
        m.state.v[2], m.state.v[3] = 63 - LANES, LANES % 5
        m.step("buffer_load_dwordx2 v[8:9], v[2:3], s[8:11], 0 idxen offen offset:4")
        for k in range(2):
            expected = [m.dword(32 * (63 - lane) + lane % 5 + 4 + 4 * k) for lane in range(64)]
            np.testing.assert_array_equal(m.state.v[8 + k], expected)

    def test_the_range_check_counts_records(self):
        m = with_stride(Memory(1024, records=10), 16)
        m.state.v[2] = LANES
        m.step("buffer_load_dwordx4 v[8:11], v2, s[8:11], 0 idxen offset:12")
        for k in range(4):
            assert m.state.v[8 + k, :10].tolist() == [
                m.dword(16 * i + 12 + 4 * k) for i in range(10)
            ]
            assert not m.state.v[8 + k, 10:].any()
        m.step("buffer_store_byte v2, v2, s[8:11], 0 idxen")
        assert m.bytes[:160:16].tolist() == list(range(10))
        np.testing.assert_array_equal(m.bytes[160:], m.before[160:])

    def test_without_a_stride_bytes_count(self):
        m = Memory(1024, records=100)
        m.state.v[2], m.state.v[3] = 1000, 4 * LANES
        m.step("buffer_load_dword v8, v[2:3], s[8:11], 0 idxen offen")
        assert m.state.v[8].tolist() == [m.dword(4 * i) for i in range(25)] + [0] * 39

    def test_swizzling_by_an_index_is_not_modelled(self):
        m = with_stride(Memory(1024), 16, swizzles=True)
        with pytest.raises(EmulationError, match="swizzling by an index is not modelled"):
            m.step("buffer_load_dword v8, v2, s[8:11], 0 idxen")


class TestThreadNumbers:
    """Resources that add the lane to the index: they have no range check."""

    @pytest.mark.parametrize("stride", [4, 36, (1 << 14) + 8])
    def test_lanes_have_a_record_each(self, stride):
        m = with_stride(Memory(64 * stride + 16, records=0), stride, adds_thread=True)
        m.state.v[2] = 4
        m.step("buffer_load_dword v8, v2, s[8:11], 0 offen offset:8")
        expected = [m.dword(stride * lane + 12) for lane in range(64)]
        np.testing.assert_array_equal(m.state.v[8], expected)

    @pytest.mark.parametrize("index_stride", range(4))
    def test_swizzled_records_alternate_by_dwords(self, index_stride):
        together, stride = 8 << index_stride, 12
        m = with_stride(
            Memory(64 * stride, records=0), stride,
            swizzles=True, adds_thread=True, index_stride=index_stride,
        )  # fmt: skip
        # what is written by (group, dword of the record, record of the group) lies in that order
        for dword in range(3):
            m.state.v[8] = 100 * LANES + dword
            m.step(f"buffer_store_dword v8, off, s[8:11], 0 offset:{4 * dword}")
        got = m.bytes.view(np.uint32).reshape(64 // together, 3, together)
        record = np.arange(64).reshape(-1, 1, together)
        np.testing.assert_array_equal(got, 100 * record + np.arange(3)[:, None])

    def test_swizzled_accesses_across_dwords_are_not_modelled(self):
        m = with_stride(Memory(1024), 16, swizzles=True, adds_thread=True)
        with pytest.raises(EmulationError, match="8 bytes at byte 4 of swizzled records"):
            m.step("buffer_load_dwordx2 v[8:9], off, s[8:11], 0 offset:4")


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("ubyte", 0x000000F9),
        ("sbyte", 0xFFFFFFF9),
        ("ushort", 0x0000FAF9),
        ("sshort", 0xFFFFFAF9),
        ("short_d16", 0xAAAAFAF9),
        ("short_d16_hi", 0xFAF9AAAA),
        ("ubyte_d16", 0xAAAA00F9),
        ("sbyte_d16_hi", 0xFFF9AAAA),
    ],
)
def test_loads_of_less_than_a_dword(name, result):
    m = Memory(1024)
    m.state.v[2] = 249
    m.step(f"buffer_load_{name} v8, v2, s[8:11], 0 offen")
    assert hex(int(m.state.v[8, 0])) == hex(result)


@pytest.mark.parametrize(
    ("name", "written"),
    [("byte", [0x44]), ("short", [0x44, 0x33]), ("byte_d16_hi", [0x22]),
     ("short_d16_hi", [0x22, 0x11])],
)  # fmt: skip
def test_stores_of_less_than_a_dword(name, written):
    m = Memory(1024)
    m.state.v[8] = 0x11223344
    m.step(f"buffer_store_{name} v8, v2, s[8:11], 0 offen")
    n = len(written)
    np.testing.assert_array_equal(m.bytes[20 : 20 + n], written)
    np.testing.assert_array_equal(m.bytes[20 + n : 24], m.before[20 + n : 24])


class TestLdsDma:
    @pytest.mark.parametrize(
        ("suffix", "size", "stride"), [("", 4, 4), ("x3", 12, 16), ("x4", 16, 16)]
    )
    def test_lanes_land_one_after_the_other_from_m0(self, suffix, size, stride):
        m = Memory(8192, pitch=64, lds=64 * 16 + 512)
        m.state.s[M0] = 128
        m.step(f"buffer_load_dword{suffix} v2, s[8:11], 0 offen offset:32 lds")
        expected = np.full(64 * 16 + 512, 0xEE)
        for lane in range(64):
            at = 128 + 32 + lane * stride  # the offset moves both addresses
            source = 64 * lane + 32
            expected[at : at + size] = m.bytes[source : source + size]
        np.testing.assert_array_equal(m.state.lds, expected)

    @pytest.mark.parametrize(
        ("name", "dtype"), [("ubyte", "u1"), ("sbyte", "i1"), ("ushort", "u2"), ("sshort", "i2")]
    )
    @pytest.mark.parametrize("form", ["buffer", "global"])
    def test_parts_of_a_dword_become_one(self, form, name, dtype):
        m = Memory(1024, pitch=6, lds=256 + 16)
        m.state.s[M0] = 4
        m.step(
            f"buffer_load_{name} v2, s[8:11], 0 offen offset:8 lds"
            if form == "buffer"
            else f"global_load_lds_{name} v2, s[8:9] offset:8"
        )
        size = np.dtype(dtype).itemsize
        parts = [m.before[6 * i + 8 : 6 * i + 8 + size].view(dtype)[0] for i in range(64)]
        expected = np.array(parts).astype(np.int32)
        np.testing.assert_array_equal(m.state.lds[12:268].view(np.int32), expected)
        assert (m.state.lds[:12] == 0xEE).all()
        assert (m.state.lds[268:] == 0xEE).all()

    def test_parts_past_the_records_are_zero(self):
        m = Memory(1024, records=17, pitch=2, lds=256)
        m.step("buffer_load_ushort v2, s[8:11], 0 offen lds")
        expected = [m.before[2 * i : 2 * i + 2].view("u2")[0] for i in range(8)] + [0] * 56
        assert m.state.lds.view(np.uint32).tolist() == expected

    def test_lanes_past_the_records_write_zero(self):
        m = Memory(4096, records=16 * 10 + 8, pitch=16, lds=1024)
        m.step("buffer_load_dwordx4 v2, s[8:11], 0 offen lds")
        np.testing.assert_array_equal(m.state.lds[:168], m.bytes[:168])
        assert not m.state.lds[168:].any()

    def test_lanes_that_are_off_leave_a_gap(self):
        m = Memory(4096, lds=256)
        m.state.set64("exec", 0b101)
        m.step("buffer_load_dword v2, s[8:11], 0 offen lds")
        np.testing.assert_array_equal(m.state.lds[8:12], m.bytes[8:12])
        assert (m.state.lds[4:8] == 0xEE).all()
        assert (m.state.lds[12:] == 0xEE).all()

    def test_lds_bounds_are_checked(self):
        m = Memory(4096, lds=255)
        with pytest.raises(EmulationError, match="LDS access of 4 bytes at address 252") as caught:
            m.step("buffer_load_dword v2, s[8:11], 0 offen lds")
        assert caught.value.lane == 63


def test_atomics():
    m = Memory(1024)
    m.bytes[:] = 0
    m.state.v[8] = 5
    m.state.v[2] = 12
    m.step("buffer_atomic_add v8, v2, s[8:11], 0 offen sc0")
    np.testing.assert_array_equal(m.state.v[8], 5 * LANES)
    assert m.bytes[12:16].view(np.uint32)[0] == 320


def test_atomics_of_64_bits_are_inside_the_records_or_dropped():
    m = Memory(1024, records=8 * 32 + 4, pitch=8)
    m.bytes[:] = 0
    m.state.v[8], m.state.v[9] = 0xFFFFFFFF, 1
    m.step("buffer_atomic_inc_x2 v[8:9], v2, s[8:11], 0 offen")
    assert m.bytes.view(np.uint64)[:64].tolist() == [1] * 32 + [0] * 32


class TestScalarLoads:
    @pytest.mark.parametrize(
        ("suffix", "width"), [("", 1), ("x2", 2), ("x4", 4), ("x8", 8), ("x16", 16)]
    )
    def test_offsets_add(self, suffix, width):
        m = Memory(1024)
        m.state.s[12] = 100
        result = f"s[16:{15 + width}]" if width > 1 else "s16"
        m.step(f"s_buffer_load_dword{suffix} {result}, s[8:11], s12 offset:0x8")
        expected = [m.dword(108 + 4 * k) for k in range(width)]
        np.testing.assert_array_equal(m.state.s[16 : 16 + width], expected)

    def test_records_have_strides(self):
        m = with_stride(Memory(1024, records=10), 16)
        m.step("s_buffer_load_dword s16, s[8:11], 0x9c")
        assert m.state.s[16] == m.dword(156)

    @pytest.mark.parametrize("stride", [0, 4])
    def test_past_the_records_nothing_is_promised(self, stride):
        m = with_stride(Memory(1024, records=64 // (stride or 1)), stride)
        m.step("s_buffer_load_dwordx4 s[16:19], s[8:11], 0x30")
        with pytest.raises(EmulationError, match="16 bytes at byte 52 of a buffer of 64 bytes"):
            m.step("s_buffer_load_dwordx4 s[16:19], s[8:11], 0x34")

"""LDS instructions: which bytes go where."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError
from rocke_cupy.emulator.step import State, step

LANES = np.arange(64, dtype=np.uint32)


def filled(size: int = 4096) -> State:
    """LDS whose byte n is n mod 251; v2 is 4 times the lane."""
    state = State(lds=(np.arange(size) % 251).astype(np.uint8))
    state.v[2] = 4 * LANES
    return state


def dwords(state: State, at: np.ndarray) -> np.ndarray:
    return np.array([state.lds[a : a + 4].copy().view(np.uint32)[0] for a in at])


@pytest.mark.parametrize(("bits", "pitch"), [(32, 4), (64, 8), (96, 12), (128, 16)])
class TestWholeDwords:
    def test_read(self, bits, pitch):
        state = filled()
        state.v[2] = pitch * LANES
        registers = f"v[8:{8 + bits // 32 - 1}]" if bits > 32 else "v8"
        step(f"ds_read_b{bits} {registers}, v2 offset:32", state)
        for k in range(bits // 32):
            expected = dwords(state, 32 + pitch * LANES + 4 * k)
            np.testing.assert_array_equal(state.v[8 + k], expected)

    def test_write_under_exec(self, bits, pitch):
        state = filled()
        before = state.lds.copy()
        state.v[2] = pitch * LANES
        state.v[8:12] = np.arange(4)[:, None] * 1000 + LANES
        state.set64("exec", 0b1010)
        registers = f"v[8:{8 + bits // 32 - 1}]" if bits > 32 else "v8"
        step(f"ds_write_b{bits} v2, {registers} offset:64", state)
        for lane in (1, 3):
            at = 64 + pitch * lane
            got = state.lds[at : at + pitch].view(np.uint32)
            np.testing.assert_array_equal(got, np.arange(bits // 32) * 1000 + lane)
            before[at : at + pitch] = state.lds[at : at + pitch]
        np.testing.assert_array_equal(state.lds, before)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("ds_read_u8 v8, v2", 0x00000081),
        ("ds_read_i8 v8, v2", 0xFFFFFF81),
        ("ds_read_u16 v8, v2", 0x00009281),
        ("ds_read_i16 v8, v2", 0xFFFF9281),
        ("ds_read_u8_d16 v8, v2", 0x11110081),
        ("ds_read_u8_d16_hi v8, v2", 0x00811111),
        ("ds_read_i8_d16 v8, v2", 0x1111FF81),
        ("ds_read_u16_d16 v8, v2", 0x11119281),
        ("ds_read_u16_d16_hi v8, v2", 0x92811111),
    ],
)
def test_reads_of_less_than_a_dword(text, result):
    state = State(lds=np.array([0x81, 0x92, 0xA3, 0xB4] * 64, np.uint8))
    state.v[2], state.v[8] = 4 * LANES, 0x11111111
    step(text, state)
    assert {hex(v) for v in state.v[8]} == {hex(result)}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("ds_write_b8 v2, v8", [0x44, 0, 0, 0]),
        ("ds_write_b8_d16_hi v2, v8", [0x22, 0, 0, 0]),
        ("ds_write_b16 v2, v8", [0x44, 0x33, 0, 0]),
        ("ds_write_b16_d16_hi v2, v8", [0x22, 0x11, 0, 0]),
    ],
)
def test_writes_of_less_than_a_dword(text, result):
    state = State(lds=np.zeros(256, np.uint8))
    state.v[2], state.v[8] = 4 * LANES, 0x11223344
    step(text, state)
    np.testing.assert_array_equal(state.lds.reshape(64, 4), [result] * 64)


class TestTwoAddresses:
    @pytest.mark.parametrize(
        ("text", "offsets", "width"),
        [
            ("ds_read2_b32 v[8:9], v2 offset0:1 offset1:5", (4, 20), 1),
            ("ds_read2_b64 v[8:11], v2 offset0:1 offset1:5", (8, 40), 2),
            ("ds_read2st64_b32 v[8:9], v2 offset1:3", (0, 768), 1),
            ("ds_read2st64_b64 v[8:11], v2 offset0:1 offset1:2", (512, 1024), 2),
        ],
    )
    def test_reads(self, text, offsets, width):
        state = filled()
        step(text, state)
        for part, offset in enumerate(offsets):
            for k in range(width):
                expected = dwords(state, offset + 4 * LANES + 4 * k)
                np.testing.assert_array_equal(state.v[8 + part * width + k], expected)

    @pytest.mark.parametrize(
        ("text", "offsets"),
        [
            ("ds_write2_b32 v2, v8, v10 offset0:1 offset1:100", (4, 400)),
            ("ds_write2st64_b32 v2, v8, v10 offset0:2 offset1:1", (512, 256)),
        ],
    )
    def test_writes(self, text, offsets):
        state = filled()
        state.v[8], state.v[10] = 7 + LANES, 70 + LANES
        step(text, state)
        for offset, base in zip(offsets, (7, 70), strict=True):
            np.testing.assert_array_equal(dwords(state, offset + 4 * LANES), base + LANES)

    def test_writes_of_64_bits(self):
        state = filled()
        state.v[2] = 8 * LANES
        state.v[8:12] = np.arange(4)[:, None] * 100 + LANES
        step("ds_write2_b64 v2, v[8:9], v[10:11] offset1:64", state)
        for k, at in enumerate((0, 4, 512, 516)):
            np.testing.assert_array_equal(dwords(state, at + 8 * LANES), 100 * k + LANES)


class TestTransposedRead:
    """In each 16 lanes, lane j halfword n is halfword j % 4 of what lane 4n + j/4 points to."""

    def test_a_4_by_16_block_comes_out_by_columns(self):
        block = np.arange(4 * 16, dtype=np.uint16).reshape(4, 16) + 1000
        state = State(lds=np.tile(block, (4, 1)).view(np.uint8).reshape(-1).copy())
        # lane j of a group: row j / 4, columns 4 * (j % 4) onwards
        j = LANES % 16
        state.v[2] = LANES // 16 * 128 + j // 4 * 32 + j % 4 * 8
        step("ds_read_b64_tr_b16 v[8:9], v2", state)
        for lane in range(64):
            column = block[:, lane % 16].astype(np.uint32)
            assert state.v[8, lane] == column[0] | column[1] << 16
            assert state.v[9, lane] == column[2] | column[3] << 16

    def test_rows_may_lie_anywhere(self):
        state = State(lds=np.arange(4096, dtype=np.uint16).view(np.uint8).copy())
        rng = np.random.default_rng(1)
        state.v[2] = 8 * rng.permutation(1000)[:64]
        step("ds_read_b64_tr_b16 v[8:9], v2 offset:16", state)
        got = np.stack([state.v[8], state.v[9]], 1).view(np.uint16).reshape(64, 4)
        for lane in range(64):
            for n in range(4):
                source = lane // 16 * 16 + 4 * n + lane % 16 // 4
                address = state.v[2, source] + 16 + 2 * (lane % 4)
                assert got[lane, n] == address // 2

    @pytest.mark.parametrize(("bits", "dwords"), [(16, 2), (8, 2), (4, 2), (6, 3)])
    def test_16_lanes_supply_rows_of_16_and_get_columns(self, bits, dwords):
        rng = np.random.default_rng(bits)
        state = State(lds=rng.integers(0, 256, 16384, np.uint8))
        state.v[2] = 4 * dwords * rng.permutation(1000)[:64]
        step(f"ds_read_b{32 * dwords}_tr_b{bits} v[8:{7 + dwords}], v2 offset:24", state)
        count = 32 * dwords // bits
        for group in range(0, 64, 16):
            supplied = b"".join(
                state.lds[a : a + 4 * dwords].tobytes() for a in state.v[2, group : group + 16] + 24
            )
            stream = int.from_bytes(supplied, "little")
            for j in range(16):
                column = [stream >> bits * (16 * n + j) & (1 << bits) - 1 for n in range(count)]
                whole = sum(element << bits * n for n, element in enumerate(column))
                got = state.v[8 : 8 + dwords, group + j].tobytes()
                assert int.from_bytes(got, "little") == whole

    def test_all_lanes_must_be_on(self):
        state = filled()
        state.set64("exec", 0xFFFF)
        with pytest.raises(EmulationError, match="transposed read"):
            step("ds_read_b64_tr_b16 v[8:9], v2", state)


class TestExchangeInMemory:
    @pytest.mark.parametrize(
        ("suffix", "unit", "size"), [("", 1, 4), ("", 1, 8), ("st64", 64, 4), ("st64", 64, 8)]
    )
    def test_two_places(self, suffix, unit, size):
        state = filled(160 * 1024)
        before, each = state.lds.copy(), size // 4
        state.v[2] = 8 * size * LANES
        state.v[4 : 4 + 2 * each] = 1000 * np.arange(2 * each)[:, None] + LANES
        first, second = (f"v[{a}:{a + 1}]" if each == 2 else f"v{a}" for a in (4, 4 + each))
        text = f"ds_wrxchg2{suffix}_rtn_b{8 * size} v[20:{19 + 2 * each}], v2, {first}, {second}"
        step(f"{text} offset0:1 offset1:202", state)
        for k in range(2 * each):
            at = state.v[2] + size * unit * (1, 202)[k // each] + 4 * (k % each)
            np.testing.assert_array_equal(state.v[20 + k], dwords(State(lds=before), at))
            np.testing.assert_array_equal(dwords(state, at), state.v[4 + k])

    def test_what_is_marked(self):
        state = filled()
        before = State(lds=state.lds.copy())
        state.v[2] = 8 * LANES
        state.v[4], state.v[5] = 0x80000005, 6
        step("ds_condxchg32_rtn_b64 v[8:9], v2, v[4:5]", state)
        for k in range(2):
            np.testing.assert_array_equal(state.v[8 + k], dwords(before, 8 * LANES + 4 * k))
        assert (dwords(state, 8 * LANES) == 5).all()
        np.testing.assert_array_equal(dwords(state, 8 * LANES + 4), state.v[9])


class TestExchange:
    def test_bpermute_pulls_and_reads_zero_from_lanes_that_are_off(self):
        state = State()
        state.v[2], state.v[3] = 4 * ((LANES + 5) % 64), 100 + LANES
        state.set64("exec", 0xFF)
        step("ds_bpermute_b32 v8, v2, v3", state)
        np.testing.assert_array_equal(state.v[8, :9], [105, 106, 107, 0, 0, 0, 0, 0, 0])

    def test_permute_pushes(self):
        state = State()
        state.v[2], state.v[3] = 4 * ((LANES + 5) % 64), 100 + LANES
        step("ds_permute_b32 v8, v2, v3", state)
        np.testing.assert_array_equal(state.v[8], 100 + (LANES - 5) % 64)

    @pytest.mark.parametrize(
        ("pattern", "source"),
        [
            ("swizzle(QUAD_PERM, 3, 2, 1, 0)", LANES // 4 * 4 + 3 - LANES % 4),
            ("swizzle(SWAP, 16)", LANES ^ 16),
            ("swizzle(REVERSE, 8)", LANES ^ 7),
            ("swizzle(BROADCAST, 32, 5)", LANES // 32 * 32 + 5),
        ],
    )
    def test_swizzle(self, pattern, source):
        state = State()
        state.v[3] = LANES
        step(f"ds_swizzle_b32 v8, v3 offset:{pattern}", state)
        np.testing.assert_array_equal(state.v[8], source)


@pytest.mark.parametrize(
    ("name", "old", "data", "result"),
    [
        ("add_rtn_u32", 0xFFFFFFFF, 3, 2),
        ("sub_rtn_u32", 1, 3, 0xFFFFFFFE),
        ("rsub_rtn_u32", 1, 3, 2),
        ("inc_rtn_u32", 5, 5, 0),
        ("inc_rtn_u32", 4, 5, 5),
        ("dec_rtn_u32", 0, 5, 5),
        ("min_rtn_i32", 0xFFFFFFFF, 3, 0xFFFFFFFF),
        ("max_rtn_i32", 0xFFFFFFFF, 3, 3),
        ("min_rtn_u32", 0xFFFFFFFF, 3, 3),
        ("max_rtn_u32", 0xFFFFFFFF, 3, 0xFFFFFFFF),
        ("and_rtn_b32", 12, 10, 8),
        ("or_rtn_b32", 12, 10, 14),
        ("xor_rtn_b32", 12, 10, 6),
        ("add_rtn_f32", 0x3F800000, 0x40000000, 0x40400000),
        ("max_rtn_f32", 0x3F800000, 0xC0000000, 0x3F800000),
        ("pk_add_rtn_f16", 0x40003C00, 0x3C003C00, 0x42004000),
        ("pk_add_rtn_bf16", 0x40003F80, 0x3F803F80, 0x40404000),
        ("wrxchg_rtn_b32", 5, 7, 7),
    ],
)
def test_atomics_change_lds_and_return_the_old_value(name, old, data, result):
    state = State(lds=np.full(256, 0, np.uint8))
    state.lds.view(np.uint32)[:] = old
    state.v[2], state.v[3] = 4 * LANES, data
    step(f"ds_{name} v8, v2, v3", state)
    np.testing.assert_array_equal(state.v[8], old)
    np.testing.assert_array_equal(state.lds.view(np.uint32), result)


def test_lanes_of_an_atomic_follow_each_other():
    state = State(lds=np.zeros(8, np.uint8))
    state.v[3] = 1
    step("ds_add_rtn_u32 v8, v2, v3", state)
    np.testing.assert_array_equal(state.v[8], LANES)
    assert state.lds.view(np.uint32)[0] == 64


@pytest.mark.parametrize(
    ("name", "old", "data", "result"),
    [
        ("add_rtn_u64", 0xFFFFFFFF, 1, 1 << 32),
        ("sub_rtn_u64", 1 << 32, 1, 0xFFFFFFFF),
        ("rsub_rtn_u64", 1, 1 << 32, 0xFFFFFFFF),
        ("inc_rtn_u64", 1 << 40, 1 << 40, 0),
        ("inc_rtn_u64", 0xFFFFFFFF, 1 << 40, 1 << 32),
        ("dec_rtn_u64", 0, 1 << 40, 1 << 40),
        ("min_rtn_i64", 2**64 - 1, 1, 2**64 - 1),
        ("max_rtn_u64", 2**64 - 1, 1, 2**64 - 1),
        ("xor_rtn_b64", 12 << 32, 10 << 32, 6 << 32),
        ("add_rtn_f64", 0x3FF0 << 48, 0x4000 << 48, 0x4008 << 48),
        ("min_rtn_f64", 0x3FF0 << 48, 0x4000 << 48, 0x3FF0 << 48),
        ("wrxchg_rtn_b64", 5 << 32, 7 << 32, 7 << 32),
    ],
)
def test_atomics_of_64_bits(name, old, data, result):
    state = State(lds=np.full(64, old, np.uint64).view(np.uint8))
    state.v[2], state.v[4], state.v[5] = 8 * LANES, data & 0xFFFFFFFF, data >> 32
    step(f"ds_{name} v[8:9], v2, v[4:5]", state)
    np.testing.assert_array_equal(state.lds.view(np.uint64), result)
    assert {int(low) | int(high) << 32 for low, high in zip(*state.v[8:10], strict=True)} == {old}


@pytest.mark.parametrize(
    ("name", "old", "first", "second", "result"),
    [
        # the value to find comes first: in memory it comes second
        ("cmpst_rtn_b32", 5, 5, 7, 7),
        ("cmpst_rtn_b32", 5, 7, 5, 5),
        ("cmpst_rtn_f32", 0x80000000, 0, 7, 7),
        ("mskor_rtn_b32", 0xFF, 0x0F, 0x105, 0x1F5),
        ("wrap_rtn_b32", 9, 4, 100, 5),
        ("wrap_rtn_b32", 3, 4, 100, 103),
    ],
)
def test_atomics_with_two_operands(name, old, first, second, result):
    state = State(lds=np.full(64, old, np.uint32).view(np.uint8))
    state.v[2], state.v[3], state.v[4] = 4 * LANES, first, second
    step(f"ds_{name} v8, v2, v3, v4", state)
    np.testing.assert_array_equal(state.lds.view(np.uint32), result)
    np.testing.assert_array_equal(state.v[8], old)


@pytest.mark.parametrize(
    ("name", "old", "first", "second", "result"),
    [
        ("cmpst_b64", 5 << 32, 5 << 32, 7, 7),
        ("cmpst_b64", 5 << 32, 7, 5 << 32, 5 << 32),
        ("cmpst_f64", 0x8000 << 48, 0, 7, 7),
        ("mskor_b64", 0xFF << 32, 0x0F << 32, 0x105 << 32, 0x1F5 << 32),
    ],
)
def test_atomics_of_64_bits_with_two_operands(name, old, first, second, result):
    state = State(lds=np.full(64, old, np.uint64).view(np.uint8))
    state.v[2] = 8 * LANES
    for register, value in ((4, first), (6, second)):
        state.v[register], state.v[register + 1] = value & 0xFFFFFFFF, value >> 32
    step(f"ds_{name} v2, v[4:5], v[6:7]", state)
    np.testing.assert_array_equal(state.lds.view(np.uint64), result)


class TestCounting:
    def test_the_active_lanes_are_added_and_all_get_what_was_there(self):
        state = State(lds=np.full(64, 100, np.uint32).view(np.uint8))
        state.s[124] = 16
        state.set64("exec", 0b10110)
        step("ds_append v8 offset:4", state)
        assert state.lds.view(np.uint32)[5] == 103
        assert (state.lds.view(np.uint32) == 100).sum() == 63
        assert state.v[8, :6].tolist() == [0, 100, 100, 0, 100, 0]
        step("ds_consume v8 offset:4", state)
        assert state.lds.view(np.uint32)[5] == 100
        assert state.v[8, :6].tolist() == [0, 103, 103, 0, 103, 0]

    def test_an_address_beyond_16_bits_is_not_known(self):
        state = filled()
        state.s[124] = 0x10000
        with pytest.raises(EmulationError, match="0x10000 in M0 as an LDS address is not modelled"):
            step("ds_append v8", state)


class TestBounds:
    @pytest.mark.parametrize("text", ["ds_read_b64 v[8:9], v2", "ds_write_b64 v2, v[8:9]"])
    def test_the_last_byte_counts(self, text):
        state = filled(63 * 4 + 8)
        step(text, state)
        short = filled(63 * 4 + 7)
        with pytest.raises(EmulationError, match="8 bytes at address 252 is outside the 259") as e:
            step(text, short)
        assert e.value.lane == 63

    def test_lanes_that_are_off_do_not_count(self):
        state = filled(16)
        state.set64("exec", 0b1111)
        step("ds_read_b32 v8, v2", state)

    def test_negative_addresses(self):
        state = filled()
        state.v[2] = 0xFFFFFFFC
        with pytest.raises(EmulationError, match="address 4294967292 is outside"):
            step("ds_read_b32 v8, v2", state)

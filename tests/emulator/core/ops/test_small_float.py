"""Conversions of 8, 6 and 4 bits against ml_dtypes, which has OCP's formats."""

import re

import numpy as np
import pytest
from helpers.matrices import BITS, FORMATS, codes, registers_of_items

from rocke_cupy.emulator.core.library import ops
from rocke_cupy.emulator.step import FLUSH_FP32, KEEP_DENORMALS, State, step

# Numbers past the range of a format are among the operands.
pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")

FP16_OVFL = 1 << 23
SMALL = {name: FORMATS[name] for name in ("fp8", "bf8", "fp6", "bf6", "fp4")}
WIDE = {name: FORMATS[name] for name in ("f32", "f16", "bf16")}
SCALES = [0.25, 1.0, 8.0, -2.5]
"""Only the exponents count: the last is 2."""


def test_all_of_the_manual_but_the_random_ones_with_scale_are_here():
    # CDNA4 manual, tables 31 and 32; how those use their random bits is not documented
    names = [name for name in ops() if re.search("(fp|bf)[864]", name) and name.startswith("v_cvt")]
    assert len(names) == 8 + 34


def all_codes(fmt):
    return np.arange(1 << BITS[fmt], dtype=np.uint8)


def values_of(fmt, numbers):
    return numbers.astype(np.uint8).view(SMALL[fmt]).astype(np.float32)


def same(got, expected):
    """Compare numbers of one type by their bits, NaN with NaN."""
    got, expected = (np.ascontiguousarray(array) for array in (got, expected))
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    as_bits = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(as_bits)[~nan], expected.view(as_bits)[~nan])


def interesting(seed=0):
    """64 fp32 numbers about the range of the formats, and around the middle between theirs."""
    rng = np.random.default_rng(seed)
    numbers = np.ldexp(rng.uniform(0.5, 2, 64), rng.integers(-19, 18, 64)).astype(np.float32)
    ties = rng.integers(1, 256, 32) * np.float32(2.0) ** rng.integers(-12, 8, 32)
    numbers[:32] = ties + rng.choice([-1e-6, 0, 0, 1e-6], 32) * ties
    numbers[32:44] = [0, 448, 464, 465, 61439, 61440, 7.5, 28, 30, 6, 7, 1e9]
    numbers[44:47] = [np.inf, 2.0**-9, 2.0**-10]
    return (numbers * rng.choice([-1, 1], 64)).astype(np.float32)


def narrowed(fmt, values, overflow=False):
    if BITS[fmt] < 8 or overflow:
        most = np.float32(most_of(fmt))
        values = np.clip(values, -most, most)
    return values.astype(SMALL[fmt])


def most_of(fmt):
    every = values_of(fmt, all_codes(fmt))
    return every[np.isfinite(every)].max()


class TestPlain:
    @pytest.mark.parametrize("fmt", ["fp8", "bf8"])
    @pytest.mark.parametrize("sel", range(4))
    def test_one_byte_to_fp32(self, fmt, sel):
        for numbers in all_codes(fmt).reshape(4, 64):
            state = State()
            state.v[2] = 0xA5A5A5A5 & ~(255 << 8 * sel) | numbers.astype(np.uint32) << 8 * sel
            text = f"_sdwa v1, v2 src0_sel:BYTE_{sel}" if sel else "_e32 v1, v2"
            step(f"v_cvt_f32_{fmt}{text}", state)
            same(state.floats(1), values_of(fmt, numbers))

    @pytest.mark.parametrize("fmt", ["fp8", "bf8"])
    def test_two_bytes_to_fp32(self, fmt):
        state = State()
        state.v[2] = 0x11223344 + np.arange(64)
        numbers = state.v[2:3].view(np.uint8).reshape(64, 4)
        for text, low in (("_e32 v[4:5], v2", 0), ("_sdwa v[4:5], v2 src0_sel:WORD_1", 2)):
            step(f"v_cvt_pk_f32_{fmt}{text}", state)
            same(state.floats(4), values_of(fmt, numbers[:, low]))
            same(state.floats(5), values_of(fmt, numbers[:, low + 1]))

    @pytest.mark.parametrize("fmt", ["fp8", "bf8"])
    @pytest.mark.parametrize("overflow", [False, True])
    @pytest.mark.parametrize("high", [0, 1])
    def test_two_fp32_to_bytes(self, fmt, overflow, high):
        state = State()
        state.floats(2)[:], state.floats(3)[:] = interesting(1), interesting(2)
        state.v[1] = 0xAABBCCDD
        mode = FLUSH_FP32 | (FP16_OVFL if overflow else 0)
        step(f"v_cvt_pk_{fmt}_f32 v1, -v2, |v3| op_sel:[0,0,{high}]", state, mode=mode)
        got = state.v[1:2].view(np.uint8).reshape(64, 4)
        other, here = (got[:, :2], got[:, 2:]) if high else (got[:, 2:], got[:, :2])
        assert (other == ([0xDD, 0xCC] if high else [0xBB, 0xAA])).all()
        for k, values in enumerate((-state.floats(2), abs(state.floats(3)))):
            same(here[:, k].copy().view(SMALL[fmt]), narrowed(fmt, values, overflow))

    def test_nan_to_bytes(self):
        state = State()
        state.floats(2)[:] = np.nan
        step("v_cvt_pk_fp8_f32 v1, v2, v2", state, mode=FLUSH_FP32 | FP16_OVFL)
        assert (state.v[1] & 0x7F7F == 0x7F7F).all()


class TestRandom:
    """The sum with the upper bits of the random number is cut off: CDNA4 manual 7.3."""

    @pytest.mark.parametrize(("fmt", "dropped"), [("fp8", 20), ("bf8", 21)])
    @pytest.mark.parametrize("byte", range(4))
    def test_bits(self, fmt, dropped, byte):
        rng = np.random.default_rng(byte)
        state = State()
        numbers = np.float32(2.0) ** rng.integers(-5, 7, 64) * rng.uniform(1, 1.8, 64)
        state.floats(2)[:] = numbers
        state.v[3] = rng.integers(0, 2**32, 64, np.uint32)
        state.v[1] = 0xAABBCCDD
        step(f"v_cvt_sr_{fmt}_f32 v1, v2, v3 op_sel:[0,0,{byte & 1},{byte >> 1}]", state)
        summed = state.v[2] + (state.v[3] >> np.uint32(32 - dropped))
        cut = (summed >> np.uint32(dropped) << np.uint32(dropped)).view(np.float32)
        got = state.v[1:2].view(np.uint8).reshape(64, 4)
        same(got[:, byte].copy().view(SMALL[fmt]), cut.astype(SMALL[fmt]))
        assert (np.delete(got, byte, 1) == np.delete([0xDD, 0xCC, 0xBB, 0xAA], byte)).all()

    def test_are_fair(self):
        state = State()
        counts = 0
        for seed in range(32):
            state.floats(2)[:] = 1 + 0.3 / 8  # 0.3 of the way from 1 to the next number
            state.v[3] = np.random.default_rng(seed).integers(0, 2**32, 64, np.uint32)
            step("v_cvt_sr_fp8_f32 v1, v2, v3", state)
            counts += np.count_nonzero(state.v[1] == 0x39)
        assert 0.25 < counts / 2048 < 0.35

    def test_the_next_random_number(self):
        state = State()
        state.v[2, :3] = [1, 0x80000000, 0xC0000001]
        step("v_prng_b32_e32 v1, v2", state)
        assert state.v[1, :3].tolist() == [2, 0xC5, 0x800000C7]


def scale_of(number):
    return np.float32(2.0) ** np.floor(np.log2(abs(number)))


WIDENING = [
    ("f32", "fp8", 1), ("f32", "bf8", 1), ("f16", "fp8", 1), ("f16", "bf8", 1),
    *((wide, fmt, 2) for wide in WIDE for fmt in ("fp8", "bf8", "fp4")),
]  # fmt: skip


@pytest.mark.parametrize("scale", SCALES)
class TestScaled:
    @pytest.mark.parametrize(("wide", "fmt", "count"), WIDENING)
    def test_widening_multiplies(self, wide, fmt, count, scale):
        state = State()
        state.v[2] = np.random.default_rng(3).integers(0, 2**32, 64, np.uint32)
        state.floats(3)[:] = scale
        part = BITS[fmt] * count
        name = f"v_cvt_scalef32_{'pk_' if count == 2 else ''}{wide}_{fmt}"
        result = "v[4:5]" if wide == "f32" and count == 2 else "v4"
        for place in range(32 // part):
            low, high = (place, 0) if part == 16 else (place & 1, place >> 1)
            step(f"{name} {result}, v2, v3 op_sel:[{low},{high},0]", state)
            field = state.v[2] >> np.uint32(part * place)
            expected = []
            for k in range(count):
                numbers = field >> np.uint32(BITS[fmt] * k) & np.uint32(2 ** BITS[fmt] - 1)
                expected.append((values_of(fmt, numbers) * scale_of(scale)).astype(WIDE[wide]))
            got = state.v[4:6].T.copy().view(WIDE[wide])[:, :count]
            same(got, np.stack(expected, 1))

    @pytest.mark.parametrize("fmt", ["fp8", "bf8", "fp4"])
    @pytest.mark.parametrize("wide", WIDE)
    def test_narrowing_divides(self, wide, fmt, scale):
        pairs = np.stack([interesting(4), interesting(5)], 1).astype(WIDE[wide])
        state = State()
        state.v[2:4] = 0
        registers = np.ascontiguousarray(pairs).view(np.uint32).reshape(64, -1).T
        state.v[2 : 2 + len(registers)] = registers
        state.floats(6)[:] = scale
        name = f"v_cvt_scalef32_pk_{fmt}_{wide}"
        sources = "v2, v3, v6" if wide == "f32" else "v2, v6"
        part = 2 * BITS[fmt]
        for place in range(32 // part):
            state.v[1] = 0xA5A5A5A5
            chosen = [0, 0, place & 1, place >> 1]
            if part == 16:
                chosen = [0] * (3 if wide == "f32" else 2) + [place]
            step(f"{name} v1, {sources} op_sel:[{','.join(map(str, chosen))}]", state)
            expected, numbers = np.zeros(64, np.uint32), np.ones(64, bool)
            for k in range(2):
                small = narrowed(fmt, pairs[:, k].astype(np.float32) / scale_of(scale))
                expected |= codes(small, fmt).astype(np.uint32) << np.uint32(BITS[fmt] * k)
                numbers &= ~np.isnan(small.astype(np.float32))
            mask = (1 << part) - 1
            got = state.v[1] >> np.uint32(part * place) & np.uint32(mask)
            np.testing.assert_array_equal(got[numbers], expected[numbers])
            rest = np.uint32(0xFFFFFFFF ^ (mask << part * place))
            assert (state.v[1] & rest == 0xA5A5A5A5 & rest).all()

    @pytest.mark.parametrize("fmt", ["fp6", "bf6"])
    @pytest.mark.parametrize("wide", WIDE)
    def test_32_numbers_of_6_bits_to_wide_ones(self, wide, fmt, scale):
        numbers = np.random.default_rng(6).integers(0, 64, (32, 64), np.uint64)
        state = State()
        state.v[10:16] = registers_of_items(numbers, 6)
        state.floats(3)[:] = scale
        last = 20 + (31 if wide == "f32" else 15)
        step(f"v_cvt_scalef32_pk32_{wide}_{fmt} v[20:{last}], v[10:15], v3", state)
        expected = (values_of(fmt, numbers) * scale_of(scale)).astype(WIDE[wide])
        same(np.ascontiguousarray(state.v[20 : last + 1].T).view(WIDE[wide]), expected.T)

    @pytest.mark.parametrize("fmt", ["fp6", "bf6"])
    @pytest.mark.parametrize("wide", WIDE)
    def test_32_wide_numbers_to_6_bits(self, wide, fmt, scale):
        values = np.stack([interesting(seed) for seed in range(32)]).astype(WIDE[wide])
        state = State()
        state.floats(3)[:] = scale
        if wide == "f32":  # sixteen of each source, by turns
            state.v[20:36], state.v[40:56] = (
                values[0::2].view(np.uint32),
                values[1::2].view(np.uint32),
            )
            text = f"v_cvt_scalef32_2xpk16_{fmt}_f32 v[10:15], v[20:35], v[40:55], v3"
        else:
            state.v[20:36] = np.ascontiguousarray(values.T).view(np.uint32).T
            text = f"v_cvt_scalef32_pk32_{fmt}_{wide} v[10:15], v[20:35], v3"
        step(text, state)
        small = narrowed(fmt, values.astype(np.float32) / scale_of(scale))
        np.testing.assert_array_equal(state.v[10:16], registers_of_items(codes(small, fmt), 6))


def test_the_least_and_the_largest_scale():
    state = State()
    state.v[2], state.v[3] = 0x38, np.repeat([0, 0x7F800000], 32)  # 1.0 in fp8
    step("v_cvt_scalef32_f32_fp8 v1, v2, v3", state, mode=KEEP_DENORMALS)
    assert (state.floats(1)[:32] == 2.0**-127).all()
    assert np.isnan(state.floats(1)[32:]).all()


def test_lanes_that_are_off_stay():
    state = State()
    state.set64("exec", 0xF)
    state.v[10:16] = 7
    step("v_cvt_scalef32_pk32_fp6_f16 v[10:15], v[20:35], 1.0", state)
    assert (state.v[10:16, :4] == 0).all()
    assert (state.v[10:16, 4:] == 7).all()

"""Dot products and sums of differences against NumPy, which unpacks what they take."""

import numpy as np
import pytest

from rocke_cupy.emulator.step import State, step

LANES = 64


def operands(count=4, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2**32, (count, LANES), np.uint32)
    values[:, 4:8] = np.array([0, 0xFFFFFFFF, 0x80808080, 0x7F7F7F7F], np.uint32)
    values[:2, 8], values[:2, 9] = 0x80000000, 0x88888888
    return values


def fields(row, bits, *, signed):
    """The packed numbers of each lane, as (number, lane) int64."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)[:, None]
    values = (row[None].astype(np.int64) >> shifts) & ((1 << bits) - 1)
    return values - (values >> (bits - 1) << bits) if signed else values


def run(text, values):
    state = State()
    state.v[2 : 2 + len(values)] = values
    step(text, state)
    return state.v[1]


@pytest.mark.parametrize(("bits", "count"), [(16, 2), (8, 4), (4, 8)])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("clamp", [False, True])
def test_dot_products(bits, count, signed, clamp):
    a, b, c = operands(3)
    kind = "iu"[not signed]
    products = fields(a, bits, signed=signed) * fields(b, bits, signed=signed)
    start = c.view(np.int32).astype(np.int64) if signed else c.astype(np.int64)
    total = products.sum(0) + start
    if clamp:
        total = np.clip(total, *((-(2**31), 2**31 - 1) if signed else (0, 2**32 - 1)))
    text = f"v_dot{count}_{kind}32_{kind}{bits} v1, v2, v3, v4{' clamp' if clamp else ''}"
    np.testing.assert_array_equal(run(text, [a, b, c]), total.astype(np.uint32))


@pytest.mark.parametrize(("bits", "count"), [(16, 2), (8, 4), (4, 8)])
def test_dot_products_that_accumulate(bits, count):
    a, b, c = operands(3)
    state = State()
    state.v[1], state.v[2], state.v[3] = c, a, b
    step(f"v_dot{count}c_i32_i{bits}_e32 v1, v2, v3", state)
    total = (fields(a, bits, signed=True) * fields(b, bits, signed=True)).sum(0) + c
    np.testing.assert_array_equal(state.v[1], total.astype(np.uint32))


def differences(a, b, bits, *, masked=False):
    x, y = (fields(row, bits, signed=False) for row in (a, b))
    return (abs(x - y) * (y != 0 if masked else 1)).sum(0)


SUMS = {
    "v_sad_u8": lambda a, b: differences(a, b, 8),
    "v_sad_hi_u8": lambda a, b: differences(a, b, 8) << 16,
    "v_sad_u16": lambda a, b: differences(a, b, 16),
    "v_msad_u8": lambda a, b: differences(a, b, 8, masked=True),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_differences(name):
    a, b, c = operands(3)
    b = np.where(np.arange(LANES) % 3, b, b & np.uint32(0xFF00FF))  # some bytes are 0
    total = SUMS[name](a, b) + c
    np.testing.assert_array_equal(run(f"{name} v1, v2, v3, v4", [a, b, c]), total.astype(np.uint32))
    got = run(f"{name} v1, v2, v3, v4 clamp", [a, b, c])
    np.testing.assert_array_equal(got, np.minimum(total, 2**32 - 1).astype(np.uint32))


@pytest.mark.parametrize("masked", [False, True])
def test_four_sums_of_16_bits(masked):
    low, high, b, c_low, c_high = operands(5, seed=2)
    state = State()
    state.v[2:4], state.v[4], state.v[6:8] = (low, high), b, (c_low, c_high)
    step(f"v_{'m' if masked else ''}qsad_pk_u16_u8 v[8:9], v[2:3], v4, v[6:7]", state)
    start = np.concatenate([fields(row, 16, signed=False) for row in (c_low, c_high)])
    expected = sliding_sums(low, high, b, masked=masked) + start & 0xFFFF
    got = np.concatenate([fields(row, 16, signed=False) for row in state.v[8:10]])
    np.testing.assert_array_equal(got, expected)


def sliding_sums(low, high, b, *, masked):
    wide = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
    windows = [(wide >> np.uint64(8 * k)).astype(np.uint32) for k in range(4)]
    return np.stack([differences(window, b, 8, masked=masked) for window in windows])


def test_four_sums_of_32_bits():
    low, high, b, *c = operands(7, seed=3)
    state = State()
    state.v[2:4], state.v[4], state.v[8:12], state.v[12:16] = (low, high), b, c, 5
    state.set64("exec", 0xFFFF_FFFF_FFFF_FFF0)
    step("v_mqsad_u32_u8 v[12:15], v[2:3], v4, v[8:11]", state)
    expected = (sliding_sums(low, high, b, masked=True) + np.stack(c)).astype(np.uint32)
    np.testing.assert_array_equal(state.v[12:16, 4:], expected[:, 4:])
    assert (state.v[12:16, :4] == 5).all()

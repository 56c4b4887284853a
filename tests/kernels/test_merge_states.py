"""The merging kernel on the emulator, against float64, with NaN around everything."""

import ml_dtypes
import numpy as np
import pytest
from helpers import code_objects
from helpers.compiled import assert_nothing_spilled, compile_source
from helpers.fences import Fenced
from helpers.problems import DTYPES
from helpers.rounding import nearest

from rocke_cupy.emulator import run
from rocke_cupy.kernels.rows import MERGE_PARTS, merge_kernel, merge_shape
from rocke_cupy.rules.parts import MAX_PARTS

PAIRS = code_objects.ROW_PAIRS[merge_kernel]

pairs = pytest.mark.parametrize(("part", "out"), PAIRS, ids=["-to-".join(p) for p in PAIRS])


def merge(outs, lses, shape, dtype, rocm="7.0", with_lse=True, **options):
    """Merge (B, S, H, D) outs with (B, H, S) LSEs; return both results."""
    outs, lses = [Fenced(a) for a in outs], [Fenced(a) for a in lses]
    out, lse = Fenced.empty(shape, dtype), Fenced.empty(lses[0].array.shape, np.float32)
    table = np.zeros((), MERGE_PARTS)
    for i, (one_out, one_lse) in enumerate(zip(outs, lses, strict=True)):
        table["out"][i] = one_out.array.ctypes.data
        table["lse"][i] = one_lse.array.ctypes.data
    in_order = [[a.array.strides[axis] for axis in (0, 2, 1)] for a in (lses[0], lse)]
    grid, arguments = merge_shape(outs[0].array, out.array, *in_order, len(outs))
    name, code = compile_source(merge_kernel(outs[0].array.dtype, out.array.dtype), rocm)
    run(
        code, name, grid, (256,),
        [out.array, lse.array if with_lse else None, np.asarray(arguments), table],
        buffers=[a.array for a in (*outs, *lses)], **options,
    )  # fmt: skip
    for array in (*outs, *lses, out, lse):
        array.assert_fence_intact()
    return out.array.copy(), lse.array.copy()


def exact(outs, lses):
    """Return the merge in float64."""
    shares = np.stack(lses).astype(np.float64)
    top = shares.max(axis=0)
    unseen = np.isneginf(top)
    weights = np.exp(shares - np.where(unseen, 0, top))
    total = np.where(unseen, 1, weights.sum(axis=0))
    factors = (weights / total).swapaxes(-1, -2)[..., None]
    parts = np.stack(outs).astype(np.float64)
    out = np.where(factors == 0, 0, parts * factors).sum(axis=0)
    with np.errstate(divide="ignore"):
        return out, np.where(unseen, -np.inf, top + np.log(total))


def random_parts(rng, count, shape, dtype, spread=1.0):
    batch, tokens, heads, _ = shape
    outs = [nearest(rng.standard_normal(shape), DTYPES[dtype]) for _ in range(count)]
    lses = [
        (spread * rng.standard_normal((batch, heads, tokens))).astype(np.float32)
        for _ in range(count)
    ]
    return outs, lses


def assert_close(got, outs, lses):
    """Float32 sums of a few terms, then one rounding of the output."""
    out, lse = exact(outs, lses)
    scale = np.max([abs(o.astype(np.float64)) for o in outs], axis=0)
    # An LSE of n has an error of n roundings of a float32, of which exp makes a relative error.
    slack = 2.0**-22 * (len(outs) + np.max(np.abs(lses)))
    rounding = {2: 2.0**-8 if got[0].dtype != np.float16 else 2.0**-11}.get(got[0].itemsize, 0)
    allowed = scale * slack + abs(out) * rounding + 1e-30
    assert (abs(got[0].astype(np.float64) - out) <= allowed).all()
    np.testing.assert_allclose(got[1], lse, rtol=2.0**-22, atol=2.0**-21)


@pairs
@pytest.mark.parametrize("rocm", ["7.0", "7.14"])
def test_no_registers_are_spilled(part, out, rocm):
    assert_nothing_spilled(merge_kernel(DTYPES[part], DTYPES[out]), rocm)


@pairs
@pytest.mark.parametrize("memory", ["lazy", "eager"])
@pytest.mark.parametrize("rocm", ["7.0", "7.14"])
def test_each_pair_of_types(part, out, memory, rocm, rng):
    shape = (2, 5, 3, 40)
    outs, lses = random_parts(rng, 3, shape, part)
    assert_close(merge(outs, lses, shape, DTYPES[out], rocm, memory=memory), outs, lses)


@pytest.mark.parametrize("count", [1, 2, 3, 31, MAX_PARTS])
def test_each_number_of_parts(count, rng):
    shape = (1, 33, 2, 8)
    outs, lses = random_parts(rng, count, shape, "fp32", spread=3)
    assert_close(merge(outs, lses, shape, np.float32), outs, lses)


@pytest.mark.parametrize("columns", [1, 7, 8, 33, 128, 256])
def test_padded_columns_of_the_parts_are_ignored(columns, rng):
    padded = -(-columns // 8) * 8
    outs, lses = random_parts(rng, 2, (1, 9, 2, padded), "fp32")
    for out in outs:
        out[..., columns:] = np.nan
    inner = [o[..., :columns] for o in outs]
    got = merge(outs, lses, (1, 9, 2, columns), np.float16)
    assert_close(got, inner, lses)


def test_a_part_that_saw_no_key_counts_nothing(rng):
    shape = (1, 6, 2, 16)
    outs, lses = random_parts(rng, 3, shape, "fp32")
    outs[1][...] = np.nan
    lses[1][...] = -np.inf
    got = merge(outs, lses, shape, np.float32)
    assert_close(got, [outs[0], outs[2]], [lses[0], lses[2]])


def test_a_row_that_no_part_saw_is_zero(rng):
    shape = (1, 6, 2, 16)
    outs, lses = random_parts(rng, 2, shape, "bf16")
    for out, lse in zip(outs, lses, strict=True):
        out[:, 4] = np.nan
        lse[:, :, 4] = -np.inf
    out, lse = merge(outs, lses, shape, DTYPES["bf16"])
    assert (out[:, 4].view(np.uint16) == 0).all()
    assert np.isneginf(lse[:, :, 4]).all()
    assert np.isfinite(np.delete(out.astype(np.float32), 4, axis=1)).all()
    assert np.isfinite(np.delete(lse, 4, axis=2)).all()


@pytest.mark.parametrize("where", ["out", "lse"])
def test_nan_stays_in_its_row(where, rng):
    shape = (1, 6, 2, 16)
    outs, lses = random_parts(rng, 3, shape, "fp32")
    if where == "out":
        outs[2][0, 3, 1] = np.nan
    else:
        lses[2][0, 1, 3] = np.nan
    out, lse = merge(outs, lses, shape, np.float32)
    assert np.isnan(out[0, 3, 1]).all()
    assert np.isnan(lse[0, 1, 3]) == (where == "lse")
    assert np.isnan(out).sum() == 16


@pytest.mark.parametrize("size", [100.0, 1e6, 1e30, 3.4e38])
@pytest.mark.parametrize("sign", [1, -1])
def test_large_lse_do_not_overflow(size, sign, rng):
    shape = (1, 3, 1, 8)
    outs, _ = random_parts(rng, 2, shape, "fp32")
    large = np.full((1, 1, 3), sign * size, np.float32)
    out, lse = merge(outs, [large, large], shape, np.float32)
    np.testing.assert_allclose(out, (outs[0] + outs[1]) / 2, rtol=1e-6)
    np.testing.assert_allclose(lse, large + np.log(2), rtol=1e-6)
    out, lse = merge(outs, [large, -large], shape, np.float32)
    np.testing.assert_array_equal(out, outs[0 if sign > 0 else 1])
    np.testing.assert_array_equal(lse, abs(large))


def test_parts_that_are_all_one_merge_into_exactly_one(rng):
    shape = (1, 200, 1, 8)
    outs, lses = random_parts(rng, 5, shape, "fp32", spread=4)
    out, _ = merge([np.ones_like(o) for o in outs], lses, shape, np.float32)
    assert (out == 1).all()


@pairs
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("rocm", ["7.0", "7.14"])
def test_the_largest_values_stay_finite(part, out, sign, rocm, rng):
    """Weighted sums of them before the division, and means of them before the last rounding."""
    largest = [float(ml_dtypes.finfo(DTYPES[name]).max) for name in (part, out)]
    shape = (1, 50, 1, 8)
    for count in (2, 3, MAX_PARTS):
        outs, lses = random_parts(rng, count, shape, part)
        for values in outs:
            values[...] = sign * largest[0]
        outs[1][0, 7, 0, 3], outs[1][0, 9, 0, 4] = np.inf, np.nan
        got, _ = merge(outs, lses, shape, DTYPES[out], rocm)
        got = got.astype(np.float64)
        assert got[0, 7, 0, 3] == np.inf or (sign < 0 and np.isnan(got[0, 7, 0, 3]))
        assert np.isnan(got[0, 9, 0, 4])
        error = 1e-14 if out == "fp64" else 0  # of a sum in float64, which all others round
        assert np.isclose(got, sign * min(largest), rtol=error).sum() == got.size - 2


def test_without_lse_the_out_is_the_same(rng):
    shape = (1, 6, 2, 16)
    outs, lses = random_parts(rng, 3, shape, "fp32")
    with_lse, _ = merge(outs, lses, shape, np.float16)
    without, untouched = merge(outs, lses, shape, np.float16, with_lse=False)
    np.testing.assert_array_equal(with_lse, without)
    assert np.isnan(untouched).all()

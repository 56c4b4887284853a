"""`merge_states` on CuPy arrays against the same call on NumPy arrays."""

import ml_dtypes
import numpy as np
import pytest
from helpers.gpu import bits
from helpers.rounding import nearest

from rocke_cupy import attention, merge_states
from rocke_cupy.rules.parts import MAX_PARTS

pytestmark = pytest.mark.gpu

DTYPES = [ml_dtypes.bfloat16, np.float16, np.float32, np.float64]


def parts(rng, count, shape, lse_shape, dtype=np.float32):
    outs = [nearest(rng.standard_normal(shape), dtype) for _ in range(count)]
    lses = [rng.standard_normal(lse_shape).astype(np.float32) for _ in range(count)]
    return outs, lses


def assert_merged_alike(cp, outs, lses, **layout):
    """Merge on the GPU and on the host; one rounding apart at most."""
    out, lse = merge_states([cp.asarray(o) for o in outs], [cp.asarray(s) for s in lses], **layout)
    expected, expected_lse = merge_states(outs, lses, **layout)
    assert out.dtype == expected.dtype
    assert out.flags.c_contiguous
    assert out.shape == expected.shape
    eps = float(ml_dtypes.finfo(outs[0].dtype).eps)
    np.testing.assert_allclose(
        cp.asnumpy(out).astype(np.float64), expected.astype(np.float64),
        rtol=max(eps, 2e-6), atol=1e-6,
    )  # fmt: skip
    np.testing.assert_allclose(cp.asnumpy(lse), expected_lse, rtol=1e-6, atol=1e-6)
    return out, lse


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize(
    ("shape", "lse_shape", "layout"),
    [
        ((2, 5, 3, 40), (2, 3, 5), {}),
        ((2, 3, 5, 40), (2, 3, 5), {"layout": "bhsd"}),
        ((5, 3, 33), (3, 5), {}),
    ],
    ids=["bshd", "bhsd", "packed"],
)
def test_each_layout_and_dtype(dtype, shape, lse_shape, layout, rng, cp):
    assert_merged_alike(cp, *parts(rng, 3, shape, lse_shape, dtype), **layout)


@pytest.mark.parametrize("count", [1, 2, MAX_PARTS, MAX_PARTS + 1, 2 * MAX_PARTS + 5])
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float64], ids=["bfloat16", "float64"])
def test_any_number_of_parts(count, dtype, rng, cp):
    assert_merged_alike(cp, *parts(rng, count, (1, 4, 2, 16), (1, 2, 4), dtype))


def test_parts_of_any_strides_give_bitwise_the_same(rng, cp):
    outs, lses = parts(rng, 3, (2, 6, 4, 16), (2, 4, 6), np.float16)
    plain = merge_states([cp.asarray(o) for o in outs], [cp.asarray(s) for s in lses])
    device_outs = [cp.asarray(o) for o in outs]
    moved = cp.asarray(np.ascontiguousarray(outs[1].transpose(3, 2, 0, 1)))
    device_outs[1] = moved.transpose(2, 3, 1, 0)
    wide = cp.asarray(np.repeat(lses[0], 2, axis=2))
    device_lses = [wide[:, :, ::2], *(cp.asarray(s) for s in lses[1:])]
    for got, expected in zip(merge_states(device_outs, device_lses), plain, strict=True):
        np.testing.assert_array_equal(bits(got, cp), bits(expected, cp))
    backwards = [cp.asarray(o[:, ::-1].copy())[:, ::-1] for o in outs]
    got, _ = merge_states(backwards, device_lses)
    np.testing.assert_array_equal(bits(got, cp), bits(plain[0], cp))


def test_rows_that_no_part_saw_are_zero(rng, cp):
    outs, lses = parts(rng, 2, (1, 4, 2, 16), (1, 2, 4))
    for out, lse in zip(outs, lses, strict=True):
        out[:, 1] = np.nan
        lse[:, :, 1] = -np.inf
    out, lse = assert_merged_alike(cp, outs, lses)
    assert not cp.asnumpy(out)[:, 1].any()
    assert np.isneginf(cp.asnumpy(lse)[:, :, 1]).all()


def test_a_part_of_vanishing_weight_still_shows_its_nan(cp):
    outs = [np.full((1, 4, 2, 16), value, np.float16) for value in (np.nan, 1)]
    lses = [np.full((1, 2, 4), lse, np.float32) for lse in (-300, 0)]
    out, _ = merge_states(*([cp.asarray(a) for a in arrays] for arrays in (outs, lses)))
    assert np.isnan(cp.asnumpy(out)).all()


def test_no_rows_launch_nothing(cp):
    out, lse = merge_states([cp.zeros((1, 0, 2, 8), np.float16)], [cp.zeros((1, 2, 0), np.float32)])
    assert (out.shape, lse.shape) == ((1, 0, 2, 8), (1, 2, 0))


def test_shards_of_the_keys_merge_into_the_whole(rng, cp):
    q = cp.asarray(nearest(rng.standard_normal((1, 5, 4, 64)), ml_dtypes.bfloat16))
    k, v = (
        cp.asarray(nearest(rng.standard_normal((1, 96, 2, 64)), ml_dtypes.bfloat16)) for _ in "kv"
    )
    shards = [
        attention(q, k[:, i : i + 32], v[:, i : i + 32], return_lse=True) for i in (0, 32, 64)
    ]
    out, lse = merge_states(*zip(*shards, strict=True))
    whole, whole_lse = attention(q, k, v, return_lse=True)
    np.testing.assert_allclose(
        cp.asnumpy(out).astype(np.float32), cp.asnumpy(whole).astype(np.float32), atol=0.01
    )
    np.testing.assert_allclose(cp.asnumpy(lse), cp.asnumpy(whole_lse), atol=2e-5)


def test_mixed_libraries_are_refused(rng, cp):
    outs, lses = parts(rng, 2, (1, 4, 2, 16), (1, 2, 4))
    with pytest.raises(TypeError, match=r"outs\[0\] is a cupy array and lses\[0\] a numpy array"):
        merge_states([cp.asarray(o) for o in outs], lses)

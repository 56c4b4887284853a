"""Rounding to narrower types, and types that lost their names."""

import io

import ml_dtypes
import numpy as np
import pytest
from helpers.rounding import nearest

import rocke_cupy
from rocke_cupy.rules.dtypes import rounded

BF16, FP16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
JUST_ABOVE_A_MIDDLE = 1 + 2.0**-8 + 2.0**-40


def hard_to_round(dtype, rng):
    """Float64 numbers on, and by a hair beside, the middles between values of a 16-bit type."""
    with np.errstate(invalid="ignore"):
        values = np.arange(2**16, dtype=np.uint16).view(dtype).astype(np.float64)
    values = np.sort(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    hairs = [middles * (1 + sign * 2.0**-bits) for bits in (30, 40, 52) for sign in (-1, 1)]
    others = rng.standard_normal(1000) * 2.0 ** rng.integers(-160, 140, 1000)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324, 3.4e38, 65520.0]
    return np.concatenate([middles, *hairs, others, special])


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=str)
def test_float64_is_rounded_once(dtype, rng):
    exact = hard_to_round(dtype, rng)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            rounded(exact, dtype).view(np.uint16)[~np.isnan(exact)],
            nearest(exact, dtype).view(np.uint16)[~np.isnan(exact)],
        )
        assert np.isnan(rounded(exact, dtype)[np.isnan(exact)].astype(np.float32)).all()


def test_inputs_are_rounded_once():
    q, v = np.zeros((1, 1, 1, 8)), np.full((1, 1, 1, 8), JUST_ABOVE_A_MIDDLE)
    out = rocke_cupy.attention(q, q, v, compute_dtype="bfloat16")
    assert (out == 1.0078125).all()


def test_results_are_rounded_once():
    # The weights of two keys are 1/2 and a little more, their values 1 and the next bfloat16.
    q = np.zeros((1, 1, 1, 8), BF16)
    k, v = np.zeros((1, 2, 1, 8), BF16), np.ones((1, 2, 1, 8), BF16)
    q[..., 0], k[0, 1, 0, 0], v[0, 1] = 1, 1, 1.0078125
    assert (rocke_cupy.attention(q, k, v, softmax_scale=1e-7) == 1.0078125).all()


def test_merged_results_are_rounded_once():
    outs = [np.full((1, 1, 1, 8), value, BF16) for value in (1, 1.0078125)]
    lses = [np.full((1, 1, 1), value, np.float32) for value in (0, 1e-7)]
    assert (rocke_cupy.merge_states(outs, lses)[0] == 1.0078125).all()


def test_bfloat16_that_lost_its_name_is_told_how_to_get_it_back():
    file = io.BytesIO()
    np.save(file, np.ones((1, 3, 1, 8), BF16))
    file.seek(0)
    q = np.load(file)
    with pytest.raises(TypeError, match=r"q\.dtype=\|V2 .*q\.view\(ml_dtypes\.bfloat16\) brings"):
        rocke_cupy.attention(q, q, q)
    lse = np.zeros((1, 1, 3), np.float32)
    with pytest.raises(TypeError, match=r"outs\[0\]\.view\(ml_dtypes\.bfloat16\) brings"):
        rocke_cupy.merge_states([q], [lse])
    q = q.view(BF16)
    assert (rocke_cupy.attention(q, q, q) == 1).all()


def test_other_structures_are_not_taken_for_bfloat16():
    q = np.zeros((1, 3, 1, 8), "V4")
    with pytest.raises(TypeError, match=r"q\.dtype=\|V4 must be .* with compute_dtype$"):
        rocke_cupy.attention(q, q, q)

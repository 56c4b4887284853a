"""Values at the ends of their types: the largest, the smallest, and scales next to nothing."""

import math

import numpy as np
import pytest
from helpers.budget import assert_within_budget, budget
from helpers.emulated import attend
from helpers.problems import Case, Given

ROCM = ("7.0", "7.14")
KERNELS = {"pipelined": (64, False), "wide": (192, False), "streaming": (192, True)}
"""A head dim of each, and whether it streams."""


both = pytest.mark.parametrize("rocm", ROCM)
kernels = pytest.mark.parametrize(("head_dim", "streaming"), KERNELS.values(), ids=KERNELS)


def first_key_above(case):
    """Return q and k that give the first key a score of 0, and each other one minus the scale."""
    q, k, _ = (np.zeros_like(a) for a in case.arrays())
    q[..., 0] = 1
    k[:, 1:, :, 0] = -1
    return q, k


@both
@kernels
@pytest.mark.parametrize("sign", [1, -1])
def test_largest_float16_values_have_a_finite_mean(sign, head_dim, streaming, rocm):
    # Weights of 1 and of a little more than a midpoint of two float16 numbers, which rounds up.
    scale = -math.log(0.5 * (1 + 1.02 * 2**-11))
    case = Case(40, 256, 1, 1, head_dim, dtype="fp16", scale=scale)
    q, k = first_key_above(case)
    v = np.full(k.shape, sign * 65504, np.float16)
    out, _, _ = attend(case, rocm, streaming=streaming, arrays=(q, k, v))
    assert (out == sign * 65504).all()
    v[0, 7, 0, 3], v[0, 9, 0, 20] = np.inf, np.nan
    out, _, _ = attend(case, rocm, streaming=streaming, arrays=(q, k, v))
    assert (out[..., 3] == np.inf).all()
    assert np.isnan(out[..., 20]).all()
    assert (np.delete(out, (3, 20), axis=-1) == sign * 65504).all()


@both
@kernels
@pytest.mark.parametrize("keys", [128, 1024, 4096])
def test_bfloat16_values_are_right_up_to_the_documented_limit(keys, head_dim, streaming, rocm):
    """Column c holds 2**c times the limit: a sum that overflows is infinite, others are right."""
    case = Case(8, keys, 1, 1, head_dim, scale=1.0)
    q, k, v = (np.zeros_like(a) for a in case.arrays())
    q[..., 0] = 1
    # Their weights are nearly 2**8, the most: the anchor stays that of the first tile.
    k[:, 64:, :, 0] = 5.53
    values = np.ldexp(1.0, np.minimum(np.arange(head_dim) - int(math.log2(keys)) + 120, 127))
    v[...] = values
    v[..., 1::2] *= -1
    out, _, _ = attend(case, rocm, streaming=streaming, arrays=(q, k, v))
    exact, out = v[:, :1].astype(np.float64), out.astype(np.float64)
    right = abs(out - exact) <= 2.0**-8 * abs(exact)
    assert right[..., 0].all()
    assert (right | (out == np.sign(exact) * np.inf)).all()
    assert not right[..., -1].any()


@both
@kernels
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("scale", [1.2e-38, 1.1e-38, 5e-39, 1e-42, 2.0**-149, 1e-60])
def test_scales_below_the_normal_numbers(scale, sign, head_dim, streaming, rocm, rng):
    case = Case(33, 140, 1, 1, head_dim, scale=sign * scale)
    q, k, v = case.arrays()
    # Up to 3e38 and all different before the scale.
    q[...] = 1e19 / head_dim * rng.uniform(0.5, 1, q.shape)
    k[...] = 1e19 * rng.uniform(-3, 3, (1, 140, 1, 1))
    case = Given(case, q, k, v)
    out, lse, _ = attend(case, rocm, streaming=streaming, arrays=(q, k, v))
    assert_within_budget(case, out, lse)


def test_a_scale_next_to_nothing_leaves_float16_scores_alike():
    case = Case(33, 140, 1, 1, dtype="fp16", scale=1e-39)
    q, k, v = (np.full_like(a, 65504) for a in case.arrays())
    v[...] = case.arrays()[2]
    case = Given(case, q, k, v)
    out, lse, _ = attend(case, arrays=(q, k, v))
    assert_within_budget(case, out, lse)


@both
@kernels
@pytest.mark.parametrize("amplitude", [1, 8])
def test_values_below_the_normal_numbers_count_as_zero(amplitude, head_dim, streaming, rocm):
    """Off by 2**-124 at most: sums, factors and results each lose what is below 2**-126."""
    case = Case(40, 300, 1, 1, head_dim, amplitude=amplitude)
    q, k, v = case.arrays()
    out, _, _ = attend(case, rocm, streaming=streaming, arrays=(q, k, np.full_like(v, 1e-39)))
    assert not out.any()
    for size in (1e-39, 1e-38, 1e-37):
        tiny = (v.astype(np.float64) * size).astype(v.dtype)
        out, _, _ = attend(case, rocm, streaming=streaming, arrays=(q, k, tiny))
        sees, scale = case.visible(0), head_dim**-0.5
        exact = budget(q[0, :, 0], k[0, :, 0], tiny[0, :, 0], scale, sees, v.dtype, v.dtype)
        error = abs(out[0, :, 0].astype(np.float64) - exact.out)
        assert (error <= exact.allowed + 2.0**-124).all()

"""The pipelined kernel votes on a tile's sum: what may be above the anchor, and what may not."""

import dataclasses

import numpy as np
import pytest
from helpers.budget import assert_within_budget
from helpers.emulated import attend
from helpers.problems import Case, Given

ROCM = ("7.0", "7.14")
MEMORIES = ("eager", "lazy")
TILE = 64


def with_scores(case, scores):
    """Return a case in which key j of each row has the exponent ``scores[j]``, in powers of two."""
    q, k, v = (np.zeros_like(a) for a in case.arrays())
    q[..., 0] = 1
    k[..., 0] = np.asarray(scores)[:, None]
    v[...] = case.arrays()[2]
    return Given(dataclasses.replace(case, scale=float(np.log(2))), q, k, v)


def check(case, rocm="7.0", **options):
    out, lse, report = attend(case, rocm, arrays=case.arrays(), **options)
    assert_within_budget(case, out, lse)
    return out, lse, report


both = pytest.mark.parametrize("rocm", ROCM)
dtypes = pytest.mark.parametrize("dtype", ["bf16", "fp16"])

# Of the second tile's keys, powers of two above the first tile's.
RISES = {
    "one weight at the bound": [13] + [-30] * 63,
    "one weight past the bound": [13.0625] + [-30] * 63,
    "all at the bound": [8] * 64,
    "all past the bound": [8.0625] * 64,
    "the largest fp16 number": [15.98] + [-30] * 63,
    "past fp16": [17] + [-30] * 63,
    "a jump of 2**127": [127] + [-30] * 63,
    "past float32": [130] + [-30] * 63,
    "a sum past float32": [124] * 64,
    "far past it": [3000] + [0] * 63,
    "down by 2**127": [-127] * 64,
    "in the last key": [-30] * 63 + [200],
}


@both
@dtypes
@pytest.mark.parametrize("name", RISES)
def test_a_tile_above_the_anchor(name, dtype, rocm):
    """In the second tile, which is the last but one, and in the last."""
    for head_dim, tiles in ((64, 2), (128, 3)):
        scores = [0] * TILE + RISES[name] + [1] * TILE * (tiles - 2)
        case = Case(40, tiles * TILE, 1, 1, head_dim, dtype=dtype)
        check(with_scores(case, scores), rocm, memory=MEMORIES[tiles % 2])


@both
@pytest.mark.parametrize("lazy_rescale", [True, False])
def test_tiles_that_rise_one_after_the_other(lazy_rescale, rocm):
    for rise in (1, 7, 12, 40, 127, 200):
        scores = np.repeat(np.arange(6) * rise, TILE)
        case = Case(40, len(scores), 1, 1, 64)
        check(with_scores(case, scores), rocm, lazy_rescale=lazy_rescale)


@both
@dtypes
@pytest.mark.parametrize("lazy_rescale", [True, False])
@pytest.mark.parametrize("amplitude", [1, 8, 64])
def test_error_budget_at_any_amplitude(amplitude, lazy_rescale, dtype, rocm):
    for memory, head_dim in zip(MEMORIES, (64, 128), strict=True):
        case = Case(96, 5 * TILE + 7, 1, 1, head_dim, dtype=dtype, amplitude=amplitude, seed=3)
        check(case, rocm, memory=memory, lazy_rescale=lazy_rescale)


@both
@pytest.mark.parametrize("level", [-300, -20, 0, 20, 300])
def test_a_row_meets_its_first_key_late(level, rocm):
    """Rows see no key of the block's first tiles; their first anchor is whatever they find."""
    case = Case(256, 600, 1, 1, 64, causal=True, window=(70, 0))
    q, k, v = case.arrays()
    q[..., 0], k[..., 0] = 1, level * 8
    check(Given(case, q, k, v), rocm)
    strict, _, _ = attend(case, rocm, arrays=(q, k, v), lazy_rescale=False)
    assert_within_budget(Given(case, q, k, v), strict)


def test_a_row_that_sees_no_key_stays_empty():
    case = Case(300, 100, 1, 1, 128, causal=True)
    out, lse, _ = check(case)
    assert not out[:, :200].any()
    assert (lse[..., :200] == -np.inf).all()


@both
def test_rows_beside_one_that_moves_keep_their_bits(rocm):
    """A wave computes its tile again for all rows, to the same bits."""
    case = Case(32, 4 * TILE, 1, 1, 64, amplitude=0.5)
    q, k, v = case.arrays()
    calm, calm_lse, _ = attend(case, rocm, arrays=(q, k, v))
    q[:, 5] *= 200
    out, lse, _ = attend(case, rocm, arrays=(q, k, v))
    others = np.arange(32) != 5
    assert out[:, others].tobytes() == calm[:, others].tobytes()
    assert lse[..., others].tobytes() == calm_lse[..., others].tobytes()
    assert_within_budget(Given(case, q, k, v), out, lse)


@both
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_stay_in_their_row(value, rocm):
    case = Case(32, 4 * TILE, 1, 1, 64)
    q, k, v = case.arrays()
    k[..., 0] = 0.5
    clean, _, _ = attend(case, rocm, arrays=(q, k, v))
    q[:, 17, :, 0] = value
    out, _, _ = attend(case, rocm, arrays=(q, k, v))
    others = np.arange(32) != 17
    assert np.isnan(out[:, 17].astype(np.float32)).all()
    assert out[:, others].tobytes() == clean[:, others].tobytes()


@both
def test_keys_of_minus_infinity_weigh_nothing(rocm):
    """Scores of -inf that q.k itself gives: all of a tile, and some of one."""
    case = Case(32, 4 * TILE, 1, 1, 64)
    q, k, v = case.arrays()
    q[..., 0], k[..., 0] = 1, 0
    for hidden in (slice(0, TILE), slice(TILE, 2 * TILE), slice(3, 130), slice(200, 256)):
        dirty = k.copy()
        dirty[:, hidden, :, 0] = -np.inf
        out, lse, _ = attend(case, rocm, arrays=(q, dirty, v))
        kept = np.ones(4 * TILE, bool)
        kept[hidden] = False
        rest = Given(
            dataclasses.replace(case, seqlen_kv=int(kept.sum())), q, k[:, kept], v[:, kept]
        )
        assert_within_budget(rest, out, lse)


@both
def test_values_of_a_row_that_meets_few_keys(rocm):
    """One key in each of two tiles, the second just below the bound: values below 2**120 / 65."""
    case = Case(1, 65, 1, 1, 64)
    scores = [0] + [-200] * 63 + [12.9]
    given = with_scores(case, scores)
    q, k, _ = given.arrays()
    v = np.full_like(k, 2.0**113)
    v[..., 1::2] *= -1
    check(Given(given, q, k, v), rocm)

"""Merging results over parts of the keys."""

import itertools

import ml_dtypes
import numpy as np
import pytest
from helpers.problems import DTYPES, Case

from rocke_cupy import merge_states, reference


def parts_of(case, cuts, **arguments):
    q, k, v = (a.astype(np.float64) for a in case.arrays())
    bounds = [0, *cuts, case.seqlen_kv]
    parts = [
        reference.attention(q, k[:, i:j], v[:, i:j], return_lse=True, **arguments)
        for i, j in itertools.pairwise(bounds)
    ]
    full = reference.attention(q, k, v, return_lse=True, **arguments)
    return parts, full


@pytest.mark.parametrize("cuts", [(), (5,), (1, 2, 3), (0, 0, 20), (20,)], ids=str)
def test_parts_of_the_keys_give_the_whole(cuts):
    parts, (full, full_lse) = parts_of(Case(7, 20, heads=4, batch=2, amplitude=3), cuts)
    out, lse = merge_states(*zip(*parts, strict=True))
    np.testing.assert_allclose(out, full, atol=1e-6)
    np.testing.assert_allclose(lse, full_lse, atol=1e-5)
    assert lse.dtype == np.float32


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_the_result_has_the_dtype_of_the_parts(dtype):
    outs = [np.full((1, 2, 1, 4), value, DTYPES[dtype]) for value in (1, 3)]
    out, _ = merge_states(outs, [np.zeros((1, 1, 2), np.float32)] * 2)
    assert out.dtype == DTYPES[dtype]
    assert (out == 2).all()


def test_layout_bhsd():
    parts, (full, full_lse) = parts_of(Case(7, 20, heads=4, batch=2), (9,))
    outs, lses = zip(*parts, strict=True)
    out, lse = merge_states([o.transpose(0, 2, 1, 3) for o in outs], lses, layout="bhsd")
    np.testing.assert_allclose(out.transpose(0, 2, 1, 3), full, atol=1e-6)
    np.testing.assert_allclose(lse, full_lse, atol=1e-5)


def test_packed_results():
    parts, (full, full_lse) = parts_of(Case(7, 20, heads=4), (9,))
    outs, lses = zip(*parts, strict=True)
    out, lse = merge_states([o[0] for o in outs], [s[0] for s in lses])
    np.testing.assert_allclose(out, full[0], atol=1e-6)
    np.testing.assert_allclose(lse, full_lse[0], atol=1e-5)


def test_rows_that_saw_no_key_anywhere_are_zero():
    outs = [np.zeros((1, 1, 1, 2)), np.zeros((1, 1, 1, 2))]
    out, lse = merge_states(outs, [np.full((1, 1, 1), -np.inf, np.float32)] * 2)
    assert (out == 0).all()
    assert np.isneginf(lse).all()


def test_a_part_that_saw_no_key_has_no_say():
    outs = [np.full((1, 1, 1, 2), np.nan), np.full((1, 1, 1, 2), 5.0)]
    lses = [np.full((1, 1, 1), -np.inf, np.float32), np.full((1, 1, 1), 3, np.float32)]
    out, lse = merge_states(outs, lses)
    assert (out == 5).all()
    assert (lse == 3).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_part_of_vanishing_weight_still_shows_its_nan(value):
    outs = [np.full((1, 1, 1, 2), value), np.full((1, 1, 1, 2), 5.0)]
    lses = [np.full((1, 1, 1), lse, np.float32) for lse in (-1000, 0)]
    assert np.isnan(merge_states(outs, lses)[0]).all()


def test_large_lses_do_not_overflow():
    outs = [np.full((1, 1, 1, 2), 1.0), np.full((1, 1, 1, 2), 3.0)]
    out, lse = merge_states(outs, [np.full((1, 1, 1), 1e30, np.float32)] * 2)
    assert (out == 2).all()
    assert np.isfinite(lse).all()


def test_nan_stays_nan():
    outs = [np.full((1, 1, 1, 2), np.nan), np.full((1, 1, 1, 2), 3.0)]
    out, lse = merge_states(outs, [np.full((1, 1, 1), np.nan, np.float32)] * 2)
    assert np.isnan(out).all()
    assert np.isnan(lse).all()


OUT, LSE = np.zeros((1, 3, 2, 4)), np.zeros((1, 2, 3), np.float32)

WRONG = [
    (([], []), ValueError, "outs has 0 arrays and lses has 0"),
    (([OUT], [LSE, LSE]), ValueError, "outs has 1 arrays and lses has 2"),
    (([OUT, OUT[:, :2]], [LSE, LSE]), ValueError, r"outs\[1\].shape=\(1, 2, 2, 4\) must equal"),
    (([OUT, OUT.astype("f4")], [LSE, LSE]), TypeError, r"outs\[1\].dtype=float32 must equal"),
    (([OUT], [LSE.astype("f8")]), TypeError, r"lses\[0\].dtype=float64 must be float32"),
    ((None, [LSE]), TypeError, "outs must be a sequence of arrays, not NoneType"),
    (([OUT, None], [LSE, LSE]), TypeError, r"outs\[1\] must be a numpy.ndarray or a cupy.nd"),
    (([OUT], 5), TypeError, "lses must be a sequence of arrays, not int"),
    (([OUT], [LSE], "bhsd"), ValueError, r"must be \(1, 3, 2\) for .* with layout='bhsd'"),
    (([OUT], [LSE[:, :1]]), ValueError, r"lses\[0\].shape=\(1, 1, 3\) must be \(1, 2, 3\)"),
    (([OUT[0, 0]], [LSE]), ValueError, r"outs\[0\].shape=\(2, 4\)"),
    (([OUT.astype(int)], [LSE]), TypeError, r"outs\[0\].dtype=int64"),
    (([OUT.tolist()], [LSE]), TypeError, r"outs\[0\] must be a numpy.ndarray"),
    (([OUT], [LSE], "sbhd"), ValueError, "layout='sbhd' must be one of"),
    (([OUT[0]], [LSE[0]], "bhsd"), ValueError, r"outs\[0\].shape=\(3, 2, 4\) with layout='bhsd'"),
]


@pytest.mark.parametrize(("call", "error", "sentence"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_wrong_calls(call, error, sentence):
    outs, lses, *layout = call
    with pytest.raises(error, match=sentence):
        merge_states(outs, lses, **({"layout": layout[0]} if layout else {}))


def test_parts_without_columns_are_refused():
    outs, lses = [np.zeros((1, 3, 2, 0), "f2")] * 2, [np.zeros((1, 2, 3), "f4")] * 2
    with pytest.raises(ValueError, match=r"outs\[0\]\.shape=\(1, 3, 2, 0\) has head dim 0"):
        merge_states(outs, lses)


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_the_largest_values_stay_finite(dtype, rng):
    largest = float(ml_dtypes.finfo(DTYPES[dtype]).max)
    error = 1e-14 if dtype == "fp64" else 0  # of a sum in float64, which all others round
    for count in range(2, 40):
        outs = [np.full((1, 3, 1, 2), largest, DTYPES[dtype]) for _ in range(count)]
        lses = [rng.standard_normal((1, 1, 3)).astype(np.float32) for _ in outs]
        outs[0][0, 1, 0, 1] = np.inf
        for sign in (1, -1):
            out, _ = merge_states([(sign * o).astype(o.dtype) for o in outs], lses)
            found = out.astype(np.float64)
            assert found[0, 1, 0, 1] == sign * np.inf
            assert np.isclose(found, sign * largest, rtol=error).sum() == out.size - 1

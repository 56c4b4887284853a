"""The test helpers, shown wrong answers: a comparison that never failed is not to be trusted."""

import ml_dtypes
import numpy as np
import pytest
from helpers.budget import assert_within_budget, budget, plain, worst
from helpers.code_digests import digest
from helpers.fences import Fenced
from helpers.problems import DTYPES, Case, visible

from rocke_cupy import reference
from rocke_cupy.emulator import hiprtc

CASES = [
    Case(64, 64, causal=True),
    Case(40, 200, dtype="fp16", amplitude=8),
    Case(70, 33, causal=True, head_dim=128, batch=2, kv_lens=(33, 5)),
]


def rounded_reference(case):
    q, k, v = case.arrays()
    wide = [a.astype(np.float64) for a in (q, k, v)]
    out, lse = reference.attention(*wide, return_lse=True, **case.arguments())
    return out.astype(q.dtype), lse


@pytest.mark.parametrize("case", CASES, ids=str)
def test_budget_accepts_the_rounded_exact_result(case):
    out, lse = rounded_reference(case)
    assert_within_budget(case, out, lse)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_budget_accepts_the_plain_computation(case):
    q, k, v = case.arrays()
    out = np.empty_like(q)
    for b in range(case.batch):
        for h in range(case.heads):
            out[b, :, h], _ = plain(
                q[b, :, h], k[b, :, h], v[b, :, h], case.head_dim**-0.5, case.visible(b), q.dtype
            )
    assert_within_budget(case, out)


def wrong_results(case):
    """Yield results with one fault each, as a kernel might have it."""
    out, lse = rounded_reference(case)
    off_by_one = out.copy()
    off_by_one[:, 1:] = out[:, :-1]
    yield "rows shifted", off_by_one, lse
    swapped = out[:, :, ::-1]
    yield "heads swapped", swapped, lse
    one = out.copy()
    one[-1, -1, -1, -1] = np.nan
    yield "one NaN", one, lse
    scaled = out.copy()
    scaled[0, -1] = (out[0, -1].astype(np.float32) * 1.02).astype(out.dtype)
    yield "a row 2 % off", scaled, lse
    yield "LSE in base 2", out, lse / np.float32(np.log(2))
    yield "LSE off by 1e-3", out, lse + np.float32(1e-3)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_budget_refuses_wrong_results(case):
    accepted = []
    for name, out, lse in wrong_results(case):
        try:
            assert_within_budget(case, out, lse)
        except AssertionError:
            continue
        accepted.append(name)
    assert not accepted


def test_budget_refuses_a_lost_key():
    case = Case(64, 640)
    q, k, v = (a.astype(np.float64) for a in case.arrays())
    out = reference.attention(q, k[:, 1:], v[:, 1:]).astype(DTYPES["bf16"])
    with pytest.raises(AssertionError, match="out of 64x640"):
        assert_within_budget(case, out)


def test_budget_refuses_a_scale_that_is_slightly_off():
    case = Case(32, 512)
    q, k, v = (a.astype(np.float64) for a in case.arrays())
    out = reference.attention(q, k, v, softmax_scale=1.01 / 8).astype(DTYPES["bf16"])
    with pytest.raises(AssertionError, match="out of 32x512"):
        assert_within_budget(case, out)


def test_budget_of_an_empty_row_is_exact():
    case = Case(3, 2, causal=True)
    out, lse = rounded_reference(case)
    assert_within_budget(case, out, lse)
    out[0, 0, 0, 0] = 1e-30
    with pytest.raises(AssertionError, match="entry 0, head 0"):
        assert_within_budget(case, out, lse)


def test_worst_names_the_element():
    exact = np.zeros((2, 3))
    got = exact.copy()
    got[1, 2] = 0.5
    assert worst(got, exact, np.full((2, 3), 0.25)) == (2.0, (1, 2))
    assert worst(exact, exact, np.zeros((2, 3)))[0] == 0
    with pytest.raises(AssertionError, match="shape"):
        worst(got[:1], exact, exact)


def test_worst_treats_infinities_by_sign():
    exact = np.array([np.inf, -np.inf])
    assert worst(exact, exact, np.ones(2))[0] == 0
    assert worst(-exact, exact, np.ones(2))[0] == np.inf


def test_budget_grows_with_the_roundings_of_the_dtype(rng):
    q, k, v = (rng.standard_normal((50, 16)) for _ in "qkv")
    sees = np.ones((50, 50), bool)
    allowed = [
        budget(q, k, v, 0.25, sees, dtype, dtype).allowed.mean()
        for dtype in (np.float16, ml_dtypes.bfloat16)
    ]
    assert 6 < allowed[1] / allowed[0] < 10


@pytest.mark.parametrize("gaps", [False, True])
def test_fence_sees_a_write_outside(gaps):
    fenced = Fenced(np.zeros((2, 3, 4), np.float16), gaps=gaps)
    fenced.array[...] = 1
    fenced.assert_fence_intact()
    assert (fenced.numpy() == 1).all()
    last = fenced.array[-1, -1, -1:]
    beyond = np.lib.stride_tricks.as_strided(last, (2,), last.strides)
    beyond[1] = 2
    with pytest.raises(AssertionError, match="outside"):
        fenced.assert_fence_intact()


def test_fence_sees_a_write_before():
    fenced = Fenced.empty((5,), np.float32)
    before = np.lib.stride_tricks.as_strided(fenced.array, (2,), (-4,))
    before[1] = 0
    with pytest.raises(AssertionError, match="first at -1 "):
        fenced.assert_fence_intact()


def test_visible_agrees_with_words():
    table = visible(2, 4, 5, True, (-1, -1), "bottom_right")
    assert table.tolist() == [[True, True, True, False, False], [True, True, True, True, False]]
    table = visible(3, 3, 3, False, (1, 0), "top_left")
    assert table.tolist() == [[True, False, False], [True, True, False], [False, True, True]]


@pytest.mark.network
def test_digests_of_code_see_instructions_and_registers_and_no_comment():
    def compiled(comment, value, registers=""):
        return hiprtc.compile(
            f"// {comment}\n"
            f'extern "C" __global__ {registers} void store(int* x) {{ *x = {value}; }}'
        ).code

    code = compiled("first", 7)
    assert digest(code) == digest(compiled("second", 7))
    others = [compiled("first", 8), compiled("first", 7, "__launch_bounds__(64)")]
    assert len({digest(c) for c in (code, *others)}) == 3

"""Packed sequences on the GPU: each as if it were alone."""

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from helpers.budget import budget, worst
from helpers.fences import Fenced
from helpers.gpu import random, same_cases
from helpers.problems import visible
from hypothesis import given

import rocke_cupy
from rocke_cupy.gpu.lengths import rows_to_launch
from rocke_cupy.rules.lengths import Lengths

pytestmark = pytest.mark.gpu

# (query tokens, keys) of each sequence: around the tiles, empty on either side, first and last.
BATCHES = {
    "mixed": [(0, 5), (1, 1), (63, 65), (0, 0), (257, 64), (5, 130), (64, 0), (2, 2)],
    "one": [(70, 70)],
    "long-last": [(3, 200), (300, 300)],
}
MASKS = [
    dict(),
    dict(causal=True),
    dict(causal=True, causal_alignment="top_left"),
    dict(window_size=(40, 10)),
]


def starts(lengths):
    return np.cumsum([0, *lengths], dtype=np.int32)


def assert_packed_parity(
    cp, rng, lengths, mask, *, heads=2, kv_heads=1, head_dim=64, spare=3, **more
):
    """Compare a packed call, with ``spare`` tokens past the last sequence, with the budget."""
    cu_q, cu_k = (starts([pair[i] for pair in lengths]) for i in (0, 1))
    q = random(rng, cu_q[-1] + spare, heads, head_dim)
    k, v = (random(rng, cu_k[-1] + spare, kv_heads, head_dim) for _ in "kv")
    k[cu_k[-1] :], v[cu_k[-1] :] = np.nan, np.nan
    inputs = [Fenced(a, cp) for a in (q, k, v)]
    out = Fenced.empty(q.shape, q.dtype, cp)
    _, lse = rocke_cupy.attention_varlen(
        *(a.array for a in inputs), cp.asarray(cu_q), cp.asarray(cu_k),
        out=out.array, return_lse=True, **mask, **more,
    )  # fmt: skip
    result, lse = out.numpy(), cp.asnumpy(lse)
    out.assert_fence_intact()
    for (i, j), (m, n) in zip(itertools.pairwise(cu_q), itertools.pairwise(cu_k), strict=True):
        sees = visible(
            j - i, n - m, n - m, mask.get("causal", False), mask.get("window_size", (-1, -1)),
            mask.get("causal_alignment", "bottom_right"),
        )  # fmt: skip
        for h in range(heads):
            expected = budget(
                q[i:j, h], k[m:n, h * kv_heads // heads], v[m:n, h * kv_heads // heads],
                head_dim**-0.5, sees, q.dtype, q.dtype,
            )  # fmt: skip
            assert worst(result[i:j, h], expected.out, expected.allowed)[0] <= 1
            assert worst(lse[h, i:j], expected.lse, expected.allowed_lse)[0] <= 1
    assert (result[cu_q[-1] :] == 0).all()
    assert np.isneginf(lse[:, cu_q[-1] :]).all()


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("batch", BATCHES)
def test_each_sequence_is_attended_alone(cp, rng, batch, mask):
    assert_packed_parity(cp, rng, BATCHES[batch], mask)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("spare", [0, 1, 600])
def test_rows_past_the_last_sequence_are_zero(cp, rng, spare, check):
    assert_packed_parity(
        cp, rng, [(5, 7), (30, 2)], dict(causal=True), spare=spare, check=check, max_seqlen_q=64
    )


SOME = st.sampled_from((0, 0, 1, 2, 5, 31, 63, 64, 65, 130))
WIDTH = st.sampled_from((-1, 0, 1, 5, 64, 10**6))


@same_cases(20)
@given(
    lengths=st.lists(st.tuples(SOME, SOME), max_size=6),
    window=st.tuples(WIDTH, WIDTH),
    causal=st.booleans(),
    alignment=st.sampled_from(("bottom_right", "top_left")),
    heads=st.sampled_from((1, 2, 6)),
    spare=st.sampled_from((0, 3, 300)),
    check=st.booleans(),
)
def test_random_sequences_and_masks(
    cp, rng, lengths, window, causal, alignment, heads, spare, check
):
    mask = dict(window_size=window, causal=causal, causal_alignment=alignment)
    longest = max((q for q, _ in lengths), default=0)
    more = dict(heads=heads, spare=spare, check=check, max_seqlen_q=None if check else longest)
    assert_packed_parity(cp, rng, lengths, mask, **more)


def test_head_dim_128_and_grouped_heads(cp, rng):
    assert_packed_parity(
        cp, rng, BATCHES["mixed"], dict(causal=True), heads=6, kv_heads=2, head_dim=128
    )


def test_larger_max_seqlens_than_needed(cp, rng):
    assert_packed_parity(cp, rng, BATCHES["mixed"], dict(), max_seqlen_q=1000, max_seqlen_k=1000)


@pytest.mark.parametrize("kind", [list, np.int64, np.int32])
def test_boundaries_may_be_a_list_or_either_integer(cp, rng, kind):
    q = cp.asarray(random(rng, 70, 2, 64))
    bounds = [0, 20, 70]
    expected = rocke_cupy.attention_varlen(q, q, q, *[cp.asarray(np.array(bounds, "i4"))] * 2)
    given = bounds if kind is list else cp.asarray(np.array(bounds, kind))
    out = rocke_cupy.attention_varlen(q, q, q, given, given)
    np.testing.assert_array_equal(cp.asnumpy(out), cp.asnumpy(expected))


def test_no_sequence_at_all(cp):
    q = cp.asarray(np.ones((5, 2, 64), np.float16))
    out, lse = rocke_cupy.attention_varlen(q, q, q, [0], [0], return_lse=True)
    assert (cp.asnumpy(out) == 0).all()
    assert np.isneginf(cp.asnumpy(lse)).all()


@pytest.mark.parametrize("shape", [(0, 2, 64), (5, 0, 64)])
def test_nothing_to_compute(cp, shape):
    q = cp.asarray(np.ones(shape, np.float16))
    out, lse = rocke_cupy.attention_varlen(q, q, q, [0, 0], [0, 0], return_lse=True)
    assert out.shape == shape
    assert lse.shape == (shape[1], shape[0])


def test_unread_boundaries_need_no_longest_length(cp, rng):
    q = cp.asarray(random(rng, 70, 2, 64))
    bounds = cp.asarray(np.array([0, 20, 70], np.int32))
    checked = rocke_cupy.attention_varlen(q, q, q, bounds, bounds)
    unchecked = rocke_cupy.attention_varlen(q, q, q, bounds, bounds, check=False)
    np.testing.assert_array_equal(cp.asnumpy(checked), cp.asnumpy(unchecked))


@pytest.mark.parametrize(
    ("longest", "starts", "tokens", "rows"),
    [
        (64, None, 100_000, 64),  # the caller's word, unread
        (64, None, 10, 10),
        (0, None, 10, 1),
        (None, None, 100_000, 100_000),
        (None, [0, 300, 500], 500, 300),
        (1000, [0, 300, 500], 500, 300),
        (None, [0, 3, 5], 1205, 400),  # 1200 rows past the last sequence, shared by three entries
        (None, [0, 0], 5, 3),
    ],
)
def test_workgroups_are_launched_for_the_longest_sequence(longest, starts, tokens, rows):
    read = {} if starts is None else {"cu_seqlens_q": np.array(starts, np.int32)}
    given = Lengths({}, entries=2, on_host=read, longest_q=longest)
    assert rows_to_launch(given, tokens) == rows

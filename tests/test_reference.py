"""The oracle, against independent implementations and against the contract's words."""

import itertools
import tracemalloc

import numpy as np
import pytest
from helpers.problems import DTYPES, Case, visible
from onnx.reference.ops.op_attention import _compute_attention
from scipy.special import logsumexp, softmax

from rocke_cupy import reference

LENGTHS = [(1, 1), (1, 7), (5, 5), (6, 3), (3, 6), (17, 64), (64, 17)]
MASKS = [
    dict(),
    dict(causal=True),
    dict(window_size=(2, 0)),
    dict(window_size=(0, 1)),
    dict(window_size=(None, 2)),
    dict(window_size=(3, -1), causal=True),
    dict(window_size=(2, 5), causal=True),
]
ALIGNMENTS = ["bottom_right", "top_left"]


def wide_arrays(rng, batch, seqlen_q, seqlen_kv, heads, kv_heads, head_dim):
    q = rng.standard_normal((batch, seqlen_q, heads, head_dim))
    k = rng.standard_normal((batch, seqlen_kv, kv_heads, head_dim))
    v = rng.standard_normal((batch, seqlen_kv, kv_heads, head_dim))
    return q, k, v


def sees_of(seqlen_q, length, seqlen_kv, mask, alignment):
    return visible(
        seqlen_q, length, seqlen_kv, mask.get("causal", False),
        mask.get("window_size", (-1, -1)), alignment,
    )  # fmt: skip


def by_loops(q, k, v, scale, sees):
    """One head, one query and one key at a time: nothing shared with the code under test."""
    out, lse = np.zeros((len(q), v.shape[1])), np.full(len(q), -np.inf)
    for i in range(len(q)):
        keys = [j for j in range(len(k)) if sees[i, j]]
        if not keys:
            continue
        scores = [scale * sum(q[i, d] * k[j, d] for d in range(q.shape[1])) for j in keys]
        top = max(scores)
        weights = [np.exp(s - top) for s in scores]
        out[i] = sum(w * v[j] for w, j in zip(weights, keys, strict=True)) / sum(weights)
        lse[i] = top + np.log(sum(weights))
    return out, lse


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS[:5], ids=str)
def test_equals_a_loop_over_queries_and_keys(rng, lengths, mask, alignment):
    q, k, v = wide_arrays(rng, 1, *lengths, 4, 2, 3)
    out, lse = reference.attention(
        q, k, v, softmax_scale=0.7, causal_alignment=alignment, return_lse=True, **mask
    )
    sees = sees_of(*lengths, lengths[1], mask, alignment)
    for h in range(4):
        expected, expected_lse = by_loops(q[0, :, h], k[0, :, h // 2], v[0, :, h // 2], 0.7, sees)
        np.testing.assert_allclose(out[0, :, h], expected, atol=1e-13)
        np.testing.assert_allclose(lse[0, h], expected_lse, atol=1e-6)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_equals_onnx_attention(rng, lengths, mask, alignment):
    q, k, v = wide_arrays(rng, 2, *lengths, 6, 2, 8)
    ours = reference.attention(q, k, v, causal_alignment=alignment, layout="bshd", **mask)
    sees = sees_of(*lengths, lengths[1], mask, alignment)
    q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
    theirs = _compute_attention(q, k, v, attn_mask=sees)[0]
    np.testing.assert_allclose(ours.transpose(0, 2, 1, 3), theirs, atol=1e-12)


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_equals_scipy_softmax(rng, mask):
    q, k, v = wide_arrays(rng, 1, 40, 55, 1, 1, 16)
    out, lse = reference.attention(q, k, v, return_lse=True, **mask)
    scores = q[0, :, 0] @ k[0, :, 0].T / 4
    scores[~sees_of(40, 55, 55, mask, "bottom_right")] = -np.inf
    np.testing.assert_allclose(out[0, :, 0], softmax(scores, axis=-1) @ v[0, :, 0], atol=1e-13)
    np.testing.assert_allclose(lse[0, 0], logsumexp(scores, axis=-1), rtol=1e-6)


def test_blocks_of_queries_do_not_show(rng, monkeypatch):
    q, k, v = wide_arrays(rng, 1, 37, 50, 4, 2, 5)
    mask = dict(causal=True, window_size=(11, 0), return_lse=True)
    whole = reference.attention(q, k, v, **mask)
    monkeypatch.setattr(reference, "_SCORES_AT_ONCE", 300)
    blocked = reference.attention(q, k, v, **mask)
    np.testing.assert_allclose(blocked[0], whole[0], atol=1e-14)
    np.testing.assert_allclose(blocked[1], whole[1], rtol=1e-6)


def test_memory_grows_with_the_lengths_not_their_product():
    def peak(length):
        q = np.zeros((1, length, 1, 8), np.float16)
        tracemalloc.start()
        reference.attention(q, q, q)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    peak(1000)
    # All scores of 8,000 x 8,000 in float64 would take 512 MB.
    assert peak(8000) < 100e6


@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_kv_lens_takes_the_place_of_seqlen_kv(rng, alignment):
    q, k, v = wide_arrays(rng, 4, 5, 9, 2, 1, 4)
    mask = dict(causal=True, window_size=(3, 0), causal_alignment=alignment, return_lse=True)
    lengths = [9, 4, 0, 1]
    out, lse = reference.attention(q, k, v, kv_lens=lengths, **mask)
    for b, n in enumerate(lengths):
        alone, alone_lse = reference.attention(q[None, b], k[None, b, :n], v[None, b, :n], **mask)
        np.testing.assert_array_equal(out[b], alone[0])
        np.testing.assert_array_equal(lse[b], alone_lse[0])


def test_keys_beyond_a_length_have_no_effect(rng):
    q, k, v = wide_arrays(rng, 2, 3, 8, 1, 1, 4)
    expected = reference.attention(q, k, v, kv_lens=[5, 2])
    k[0, 5:], v[0, 5:], k[1, 2:], v[1, 2:] = np.nan, np.inf, -np.inf, np.nan
    np.testing.assert_array_equal(reference.attention(q, k, v, kv_lens=[5, 2]), expected)


@pytest.mark.parametrize(("name", "value"), [("k", np.nan), ("v", np.nan), ("v", np.inf)])
def test_nan_and_inf_in_a_visible_key_show_in_its_rows(rng, name, value):
    q, k, v = wide_arrays(rng, 1, 6, 6, 1, 1, 4)
    {"k": k, "v": v}[name][0, 3] = value
    out = reference.attention(q, k, v, causal=True)
    assert not np.isfinite(out[0, 3:]).any()


@pytest.mark.parametrize("mask", [dict(causal=True), dict(window_size=(0, 0))])
def test_rows_that_see_no_key_are_zero_with_lse_minus_infinity(rng, mask):
    q, k, v = wide_arrays(rng, 1, 7, 4, 2, 1, 4)
    out = np.full(q.shape, np.nan)
    result, lse = reference.attention(q, k, v, out=out, return_lse=True, **mask)
    assert result is out
    assert (out[0, :3] == 0).all()
    assert np.isneginf(lse[0, :, :3]).all()
    assert np.isfinite(lse[0, :, 3:]).all()


def test_no_keys_at_all(rng):
    q, k, v = wide_arrays(rng, 2, 3, 0, 2, 1, 4)
    out, lse = reference.attention(q, k, v, return_lse=True)
    assert (out == 0).all()
    assert np.isneginf(lse).all()


@pytest.mark.parametrize("shape", [(0, 3, 2, 4), (2, 0, 2, 4), (2, 3, 0, 4)])
def test_empty_arrays(shape):
    q = np.zeros(shape)
    out, lse = reference.attention(q, q, q, return_lse=True)
    assert out.shape == shape
    assert lse.shape == (shape[0], shape[2], shape[1])


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_values_of_one_give_exactly_one(dtype):
    q, k, v = Case(33, 65, amplitude=8, dtype=dtype).arrays()
    v[...] = 1
    assert (reference.attention(q, k, v, causal=True) == 1).all()


def test_zero_queries_give_the_mean_and_the_log_of_the_count(rng):
    q, k, v = wide_arrays(rng, 1, 5, 9, 1, 1, 4)
    out, lse = reference.attention(np.zeros_like(q), k, v, return_lse=True)
    np.testing.assert_allclose(out[0, :, 0], np.tile(v[0, :, 0].mean(axis=0), (5, 1)))
    np.testing.assert_allclose(lse, np.log(9), rtol=1e-7)


@pytest.mark.parametrize("scale", [0.0, -0.3, 1e11, -6e33])
def test_any_finite_scale(rng, scale):
    q, k, v = wide_arrays(rng, 1, 4, 6, 1, 1, 4)
    out = reference.attention(q, k, v, softmax_scale=scale)
    expected = softmax(q[0, :, 0] @ k[0, :, 0].T * scale, axis=-1) @ v[0, :, 0]
    np.testing.assert_allclose(out[0, :, 0], expected, rtol=1e-9)


def test_an_lse_beyond_float32_is_infinite_without_a_warning(rng):
    q, k, v = wide_arrays(rng, 1, 4, 6, 1, 1, 4)
    _, lse = reference.attention(10 * q, 10 * k, v, softmax_scale=3e38, return_lse=True)
    assert np.isinf(lse).any()


def test_layout_bhsd_is_a_transposition(rng):
    q, k, v = wide_arrays(rng, 2, 5, 7, 4, 2, 3)
    expected, expected_lse = reference.attention(q, k, v, causal=True, return_lse=True)
    q, k, v = (np.ascontiguousarray(a.transpose(0, 2, 1, 3)) for a in (q, k, v))
    out, lse = reference.attention(q, k, v, causal=True, layout="bhsd", return_lse=True)
    assert out.flags.c_contiguous
    np.testing.assert_array_equal(out.transpose(0, 2, 1, 3), expected)
    np.testing.assert_array_equal(lse, expected_lse)


@pytest.mark.parametrize("compute_dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("dtype", ["fp32", "fp64"])
def test_compute_dtype_rounds_the_inputs_only(rng, dtype, compute_dtype):
    q, k, v = (a.astype(DTYPES[dtype]) for a in wide_arrays(rng, 1, 5, 6, 1, 1, 4))
    out = reference.attention(q, k, v, compute_dtype=compute_dtype)
    assert out.dtype == q.dtype
    rounded = [a.astype(compute_dtype).astype(np.float64) for a in (q, k, v)]
    expected = reference.attention(*rounded)
    np.testing.assert_array_equal(out, expected.astype(q.dtype))
    assert abs(out - reference.attention(q, k, v)).max() > 1e-5


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_out_has_the_dtype_of_the_inputs(dtype):
    q, k, v = Case(3, 4, dtype=dtype).arrays()
    out, lse = reference.attention(q, k, v, return_lse=True)
    assert (out.dtype, lse.dtype) == (DTYPES[dtype], np.float32)


def test_arrays_of_any_strides(rng):
    qkv = rng.standard_normal((2, 7, 3, 2, 4))
    q, k, v = (qkv[:, :, i] for i in range(3))
    out = np.full((2, 7, 2, 8), np.nan)[..., ::2]
    reference.attention(q, k, v[:, ::-1], causal=True, out=out)
    copies = [np.ascontiguousarray(a) for a in (q, k, v[:, ::-1])]
    np.testing.assert_array_equal(out, reference.attention(*copies, causal=True))


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_varlen_is_each_sequence_alone(rng, mask, alignment):
    lengths = [(3, 5), (0, 2), (4, 0), (6, 6), (0, 0), (1, 9), (5, 2)]
    cu_q, cu_k = (np.cumsum([0, *(pair[i] for pair in lengths)], dtype=np.int32) for i in (0, 1))
    q = rng.standard_normal((cu_q[-1] + 2, 4, 3))
    k, v = (rng.standard_normal((cu_k[-1] + 3, 2, 3)) for _ in "kv")
    k[cu_k[-1] :], v[cu_k[-1] :] = np.nan, np.nan
    out, lse = reference.attention_varlen(
        q, k, v, cu_q, cu_k, causal_alignment=alignment, return_lse=True, **mask
    )
    for (i, j), (m, n) in zip(itertools.pairwise(cu_q), itertools.pairwise(cu_k), strict=True):
        alone, alone_lse = reference.attention(
            q[None, i:j], k[None, m:n], v[None, m:n],
            causal_alignment=alignment, return_lse=True, **mask,
        )  # fmt: skip
        np.testing.assert_array_equal(out[i:j], alone[0])
        np.testing.assert_array_equal(lse[:, i:j], alone_lse[0])
    assert (out[cu_q[-1] :] == 0).all()
    assert np.isneginf(lse[:, cu_q[-1] :]).all()


def test_varlen_without_any_sequence():
    q = np.ones((4, 2, 3))
    out, lse = reference.attention_varlen(q, q, q, [0], [0], return_lse=True)
    assert (out == 0).all()
    assert np.isneginf(lse).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_a_mean_of_finite_values_is_finite(dtype, rng):
    q, k = (rng.standard_normal((1, n, 2, 8)).astype(dtype) for n in (5, 70))
    largest = np.finfo(dtype).max
    out = reference.attention(q, k, np.full_like(k, -largest))
    np.testing.assert_allclose(out, -largest, rtol=1e-12)
    v = np.full_like(k, np.inf)
    assert (reference.attention(q, k, v) == np.inf).all()

"""Launching a spec's kernel: the seed's vocabulary on CuPy arrays."""

import numpy as np
import pytest
from helpers.budget import assert_within_budget
from helpers.gpu import bits, random, run_spec, spec_of
from helpers.problems import Case
from helpers.specs import spec

import rocke_cupy
from rocke_cupy import run_attention_dense

pytestmark = pytest.mark.gpu


CASES = [
    Case(300, 300, heads=4, kv_heads=2, batch=2, causal=True),
    Case(300, 200, heads=3, kv_heads=1, causal=True, alignment="top_left"),
    Case(70, 300, heads=4, kv_heads=2, batch=3, head_dim=128, amplitude=8),
]

CHOICES = [
    dict(),
    dict(work_order="xcd"),
    dict(lazy_rescale=False),
    dict(block_n=128),
    dict(pack_gqa=True),
    dict(pack_gqa=True, work_order="xcd"),
    dict(wide_kv=True),
    dict(waves_per_eu=1),
    dict(streaming=True),
    dict(packed_softmax=True, raised_priority=True),
    *(
        dict(persistent=True, num_persistent=n, persist_decode=decode, interleave=interleave)
        for n in (1, 3, 1000)
        for decode, interleave in (
            ("qb_major", False), ("qb_major", True), ("hkv_major", False), ("auto", False),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_every_choice_gives_the_same_answer(cp, choice):
    for case in CASES:
        run_spec(cp, case, **choice)


def test_sliding_window_counts_the_token_itself(cp):
    case = Case(256, 256, causal=True, window=(63, -1))
    run_spec(cp, case, sliding_window=64, causal_alignment="top_left", ragged=False)


def test_defaults_are_the_seeds_meaning(cp):
    case = Case(256, 128, causal=True, alignment="top_left", heads=2)
    plain = spec(
        batch=1, seqlen_q=256, seqlen_kv=128, num_query_heads=2, num_kv_heads=2, head_size=64
    )
    q, k, v = (cp.asarray(a) for a in case.arrays())
    out = cp.empty_like(q)
    assert run_attention_dense(spec=plain, q=q, k=k, v=v, out=out, scale=0.125) is out
    assert_within_budget(case, cp.asnumpy(out))


def test_float32_out(cp):
    case = Case(65, 70)
    q, k, v = (cp.asarray(a) for a in case.arrays())
    out = cp.asarray(np.full(q.shape, np.nan, np.float32))
    run_attention_dense(
        spec=spec_of(case, float32_out=True), q=q, k=k, v=v, out=out, scale=case.head_dim**-0.5
    )
    rounded = cp.asnumpy(out).astype(q.dtype)
    assert_within_budget(case, rounded)
    assert (rounded.astype(np.float32) != cp.asnumpy(out)).any()


@pytest.mark.parametrize("choice", [dict(), dict(persistent=True, num_persistent=3)], ids=str)
@pytest.mark.parametrize("mask", [dict(), dict(causal=False), dict(sliding_window=40)], ids=str)
def test_varlen(cp, rng, mask, choice):
    lengths_q, lengths_k = [5, 0, 300, 64], [5, 7, 300, 100]
    cu_q, cu_k = (np.cumsum([0, *n], dtype=np.int32) for n in (lengths_q, lengths_k))
    q = cp.asarray(random(rng, cu_q[-1] + 2, 4, 64))
    k, v = (cp.asarray(random(rng, cu_k[-1], 2, 64)) for _ in "kv")
    one = spec(
        batch=4, seqlen_q=300, seqlen_kv=300, num_query_heads=4, num_kv_heads=2, head_size=64,
        varlen=True, ragged=True, **mask, **choice,
    )  # fmt: skip
    out = cp.asarray(np.full(q.shape, np.nan, q.dtype))
    run_attention_dense(
        spec=one, q=q, k=k, v=v, out=out, scale=0.125,
        cu_seqlens_q=cp.asarray(cu_q), cu_seqlens_kv=cp.asarray(cu_k),
    )  # fmt: skip
    expected = rocke_cupy.attention_varlen(
        q, k, v, cu_q, cu_k, softmax_scale=0.125, causal=one.causal,
        window_size=(one.sliding_window - 1, -1), causal_alignment="top_left",
    )  # fmt: skip
    got, expected = (cp.asnumpy(a).astype(np.float32) for a in (out, expected))
    np.testing.assert_allclose(got, expected, atol=2e-2)
    assert (got[-2:] == 0).all()


def test_key_lengths(cp, rng):
    one = spec(
        batch=2, seqlen_q=64, seqlen_kv=128, num_query_heads=2, num_kv_heads=2, head_size=64,
        key_lengths=True, ragged=True, causal_alignment="bottom_right",
    )  # fmt: skip
    q, k, v = (cp.asarray(random(rng, 2, n, 2, 64)) for n in (64, 128, 128))
    out = cp.empty_like(q)
    run_attention_dense(spec=one, q=q, k=k, v=v, out=out, scale=0.125, kv_lens=[100, 3])
    expected = rocke_cupy.attention(q, k, v, causal=True, kv_lens=[100, 3])
    np.testing.assert_array_equal(bits(out, cp), bits(expected, cp))


def wrong(**changes):
    """Return the arguments of a call that is right but for ``changes``."""
    arguments = dict(
        spec=spec(num_query_heads=2, num_kv_heads=2, batch=1, seqlen_q=256, seqlen_kv=256),
        q=(1, 256, 2, 128), k=(1, 256, 2, 128), v=(1, 256, 2, 128), out=(1, 256, 2, 128),
        scale=0.1,
    )  # fmt: skip
    return {**arguments, **changes}


VARLEN = wrong()["spec"].replace(varlen=True, batch=2)
PACKED = dict(spec=VARLEN, q=(300, 2, 128), k=(300, 2, 128), v=(300, 2, 128), out=(300, 2, 128))

WRONG = [
    (wrong(q=(2, 256, 2, 128)), ValueError, r"q\.shape=\(2, 256, 2, 128\) must be \(1, 256"),
    (wrong(k=(1, 128, 2, 128)), ValueError, r"k\.shape=.* must be \(1, 256, 2, 128\), as the spec"),
    (wrong(v=(1, 256, 1, 128)), ValueError, r"v\.shape="),
    (wrong(out=(1, 256, 2, 64)), ValueError, r"out\.shape="),
    (wrong(spec=wrong()["spec"].replace(dtype="fp16")), TypeError, r"q\.dtype=bfloat16 must be fl"),
    (wrong(spec=wrong()["spec"].replace(float32_out=True)), TypeError, r"out\.dtype=bfloat16 must"),
    (wrong(scale=float("nan")), ValueError, "^scale=nan"),
    (wrong(scale="1"), TypeError, "^scale='1' must be a real number"),
    (wrong(arch="gfx942"), NotImplementedError, "gfx942"),
    (wrong(cu_seqlens_q=[0, 3]), ValueError, "cu_seqlens_q must be given if and only if"),
    (wrong(kv_lens=[3]), ValueError, "kv_lens must be given if and only if"),
    (wrong(**PACKED), ValueError, "cu_seqlens_q must be given if and only if"),
    (wrong(**PACKED, cu_seqlens_q=[0, 9, 9]), ValueError, "cu_seqlens_kv must be given"),
    (
        wrong(**PACKED, cu_seqlens_q=[0, 9], cu_seqlens_kv=[0, 9]),
        ValueError,
        r"cu_seqlens_q\.shape=\(2,\) must be \(3,\)",
    ),
    (
        wrong(**PACKED, cu_seqlens_q=[0, 9, 9], cu_seqlens_kv=[0, 9, 301]),
        ValueError,
        r"cu_seqlens_kv\[-1\]=301 must be at most the 300 tokens of k",
    ),
    (
        wrong(**PACKED, cu_seqlens_q=[0, 270, 270], cu_seqlens_kv=[0, 9, 9]),
        ValueError,
        r"spec\.seqlen_q=256 is too small",
    ),
    (wrong(return_lse=1), TypeError, "return_lse=1"),
]


@pytest.mark.parametrize(("arguments", "error", "sentence"), WRONG, ids=[w[2][:40] for w in WRONG])
def test_wrong_calls(cp, arguments, error, sentence):
    from helpers.wrong_calls import zeros

    arrays = {
        name: cp.asarray(zeros(*value)) if name in ("q", "k", "v", "out") else value
        for name, value in arguments.items()
    }
    with pytest.raises(error, match=sentence):
        run_attention_dense(**arrays)


def test_numpy_arrays_are_refused():
    from helpers.wrong_calls import zeros

    arrays = {n: zeros(1, 256, 2, 128) for n in ("q", "k", "v", "out")}
    with pytest.raises(TypeError, match=r"q must be a cupy\.ndarray"):
        run_attention_dense(spec=wrong()["spec"], scale=1.0, **arrays)


def test_a_layout_that_the_kernel_cannot_read_is_named(cp):
    from helpers.wrong_calls import zeros

    arrays = {n: cp.asarray(zeros(1, 256, 2, 128)) for n in ("q", "k", "v", "out")}
    arrays["k"] = arrays["k"][:, ::-1]
    with pytest.raises(ValueError, match="k must be as the kernel reads it: its tokens are"):
        run_attention_dense(spec=wrong()["spec"], scale=1.0, **arrays)

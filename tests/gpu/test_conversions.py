"""Arrays that are cast, padded or packed on the way, and keys that are split: still one call."""

import numpy as np
import pytest
from helpers.budget import assert_within_budget
from helpers.gpu import assert_parity, bits, random, run_spec
from helpers.problems import DTYPES, Case

import rocke_cupy
from rocke_cupy import select

pytestmark = pytest.mark.gpu

ODD_HEAD_DIMS = [
    Case(33, 65, head_dim=d, causal=True, dtype=("bf16", "fp16")[i % 2], heads=2, kv_heads=1)
    for i, d in enumerate((1, 2, 3, 7, 12, 30, 63, 65, 100, 127, 129, 201, 255))
]


@pytest.mark.parametrize("case", ODD_HEAD_DIMS, ids=str)
def test_any_head_dim(case, cp):
    assert_parity(case, cp)


WIDE = [
    Case(70, 65, heads=4, kv_heads=2, head_dim=d, dtype=dtype, causal=True, batch=2)
    for dtype in ("fp32", "fp64")
    for d in (16, 50, 128, 192)
]


@pytest.mark.parametrize("working", ["bf16", "fp16"])
@pytest.mark.parametrize("case", WIDE, ids=str)
def test_wide_inputs_are_rounded_once_and_the_result_not_at_all(case, working, cp):
    compute_dtype = DTYPES[working].name
    assert_parity(case, cp, working=DTYPES[working], compute_dtype=compute_dtype)


@pytest.mark.parametrize("gaps", [False, True])
def test_float32_with_kv_lens_and_windows(cp, gaps):
    case = Case(
        40, 90, heads=2, kv_heads=1, head_dim=24, dtype="fp32", batch=3, kv_lens=(90, 0, 17),
        window=(30, 4),
    )  # fmt: skip
    assert_parity(case, cp, gaps=gaps, working=DTYPES["fp16"], compute_dtype="float16")


def test_wide_results_keep_more_than_16_bits(cp, rng):
    q = cp.asarray(rng.standard_normal((1, 50, 1, 64)).astype(np.float32))
    out = cp.asnumpy(rocke_cupy.attention(q, q, q, compute_dtype="bfloat16"))
    assert (out != out.astype(DTYPES["bf16"]).astype(np.float32)).mean() > 0.9


def test_values_too_large_for_float16_become_infinite(cp):
    q = np.ones((1, 2, 1, 8), np.float32)
    v = q.copy()
    v[..., 0] = 1e6
    out = rocke_cupy.attention(*map(cp.asarray, (q, q, v)), compute_dtype="float16")
    assert np.isinf(cp.asnumpy(out)[..., 0]).all()
    out = rocke_cupy.attention(*map(cp.asarray, (q, q, v)), compute_dtype="bfloat16")
    np.testing.assert_allclose(cp.asnumpy(out)[..., 0], 1e6, rtol=2**-8)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
@pytest.mark.parametrize("axis", ["batch", "head"])
def test_broadcast_keys_are_packed_once_not_for_each_repeat(cp, rng, layout, axis):
    shape = {"batch": (1, 40, 2, 24), "head": (3, 40, 1, 24)}[axis]
    full = (3, 40, 2, 24)
    q = rng.standard_normal((3, 33, 2, 24)).astype(np.float32)
    k, v = (rng.standard_normal(shape).astype(np.float32) for _ in "kv")
    expanded = [q, *(np.ascontiguousarray(np.broadcast_to(a, full)) for a in (k, v))]
    expected = rocke_cupy.attention(*map(cp.asarray, expanded), compute_dtype="float16")
    arrays = [cp.asarray(q), *(cp.broadcast_to(cp.asarray(a), full) for a in (k, v))]
    if layout == "bhsd":
        arrays = [a.transpose(0, 2, 1, 3) for a in arrays]
    out = rocke_cupy.attention(*arrays, compute_dtype="float16", layout=layout)
    out = cp.asnumpy(out)
    out = out.transpose(0, 2, 1, 3) if layout == "bhsd" else out
    np.testing.assert_array_equal(bits(out), bits(expected, cp))


def test_packed_sequences_of_float32(cp, rng):
    q = rng.standard_normal((80, 4, 20)).astype(np.float32)
    k, v = (rng.standard_normal((90, 2, 20)).astype(np.float32) for _ in "kv")
    call = dict(cu_seqlens_q=[0, 30, 77], cu_seqlens_k=[0, 70, 90], causal=True)
    arguments = dict(compute_dtype="float16", return_lse=True)
    out, lse = rocke_cupy.attention_varlen(*map(cp.asarray, (q, k, v)), **call, **arguments)
    exact, exact_lse = rocke_cupy.reference.attention_varlen(q, k, v, **call, **arguments)
    np.testing.assert_allclose(cp.asnumpy(out), exact, atol=3e-3)
    np.testing.assert_allclose(cp.asnumpy(lse), exact_lse, atol=1e-3)
    assert (cp.asnumpy(out)[77:] == 0).all()


def test_no_keys_of_float32(cp):
    assert_parity(
        Case(5, 0, head_dim=20, dtype="fp32"), cp, working=DTYPES["fp16"], compute_dtype="float16"
    )


SPLIT = [
    Case(1, 4096, heads=8, kv_heads=2),
    Case(1, 3000, heads=4, kv_heads=4, head_dim=128, dtype="fp16", amplitude=8),
    Case(5, 2100, heads=2, kv_heads=1, causal=True, batch=3, kv_lens=(2100, 3, 0)),
    Case(3, 2500, heads=1, kv_heads=1, causal=True, alignment="top_left"),
    Case(7, 2500, heads=1, kv_heads=1, window=(1200, 900)),
    Case(2, 2048, heads=2, kv_heads=2, head_dim=44),
]


@pytest.mark.parametrize("case", SPLIT, ids=str)
def test_keys_split_over_workgroups(case, cp, monkeypatch):
    seen = []
    real = select.splits
    monkeypatch.setattr(select, "splits", lambda *a: seen.append(real(*a)) or seen[-1])
    assert_parity(case, cp)
    assert seen[0] > 1


def test_keys_of_float32_split(cp):
    case = Case(2, 2100, heads=2, kv_heads=2, head_dim=40, dtype="fp32")
    assert_parity(case, cp, working=DTYPES["bf16"], compute_dtype="bfloat16")


@pytest.mark.parametrize("num_splits", [2, 3, 32])
def test_a_spec_can_ask_for_splits(cp, num_splits):
    for case in (Case(70, 300, heads=2, kv_heads=1, causal=True), Case(33, 40, batch=2)):
        run_spec(cp, case, num_splits=num_splits)


def test_decoding_equals_the_rows_of_the_whole_pass(cp, rng):
    q = cp.asarray(random(rng, 1, 2100, 2, 64, dtype=np.float16))
    cache = [cp.asarray(random(rng, 1, 2200, 1, 64, dtype=np.float16)) for _ in "kv"]
    whole = rocke_cupy.attention(q, *(c[:, :2100] for c in cache), causal=True)
    step = rocke_cupy.attention(q[:, 2099:2100], *(c[:, :2100] for c in cache), causal=True)
    last = cp.asnumpy(whole)[:, -1:].astype(np.float32)
    np.testing.assert_allclose(cp.asnumpy(step).astype(np.float32), last, atol=1e-3)


def test_budget_of_a_split_result_without_lse(cp):
    case = Case(1, 2048, heads=1, kv_heads=1)
    q, k, v = (cp.asarray(a) for a in case.arrays())
    assert_within_budget(case, cp.asnumpy(rocke_cupy.attention(q, k, v)))

"""What a user of `attention` on CuPy arrays may count on, apart from the numbers."""

import ml_dtypes
import numpy as np
import pytest
from helpers.fences import Fenced
from helpers.gpu import bits, random
from helpers.problems import DTYPES

import rocke_cupy
from rocke_cupy.gpu import calls
from rocke_cupy.kernels import build

pytestmark = pytest.mark.gpu


@pytest.fixture
def qkv(cp, rng):
    """Three arrays on the device: 70 queries, 90 keys, 4 query heads on 2."""
    shapes = [(2, 70, 4, 64), (2, 90, 2, 64), (2, 90, 2, 64)]
    return [cp.asarray(random(rng, *shape)) for shape in shapes]


def test_a_fresh_result_is_contiguous_and_like_q(cp, qkv):
    out, lse = rocke_cupy.attention(*qkv, return_lse=True)
    assert (out.shape, out.dtype) == (qkv[0].shape, qkv[0].dtype)
    assert (lse.shape, lse.dtype) == ((2, 4, 70), np.float32)
    assert out.flags.c_contiguous
    assert lse.flags.c_contiguous


def test_out_is_returned(cp, qkv):
    out = cp.asarray(np.full(qkv[0].shape, np.nan, qkv[0].dtype))
    assert rocke_cupy.attention(*qkv, out=out) is out
    fresh = rocke_cupy.attention(*qkv)
    np.testing.assert_array_equal(bits(out, cp), bits(fresh, cp))


def test_layout_bhsd_in_fresh_memory(cp, rng):
    host = [random(rng, 2, n, 2, 64) for n in (33, 50, 50)]
    bshd = rocke_cupy.attention(*map(cp.asarray, host), causal=True)
    turned = [cp.asarray(np.ascontiguousarray(a.transpose(0, 2, 1, 3))) for a in host]
    bhsd = rocke_cupy.attention(*turned, causal=True, layout="bhsd")
    assert bhsd.flags.c_contiguous
    np.testing.assert_array_equal(bits(bhsd, cp).transpose(0, 2, 1, 3), bits(bshd, cp))


@pytest.mark.parametrize("shape", [(0, 3, 2, 64), (2, 0, 2, 64), (2, 3, 0, 64)])
def test_empty_arrays_launch_nothing(cp, shape, monkeypatch):
    monkeypatch.setattr(build, "build", None)
    q = cp.asarray(np.zeros(shape, np.float16))
    out, lse = rocke_cupy.attention(q, q, q, return_lse=True)
    assert (out.shape, lse.shape) == (shape, (shape[0], shape[2], shape[1]))
    given = cp.empty_like(q)
    assert rocke_cupy.attention(q, q, q, out=given) is given


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("mask", [dict(), dict(causal=True), dict(window_size=(5, 5))], ids=str)
def test_values_of_one_give_exactly_one(cp, rng, dtype, mask):
    q, k = (cp.asarray(random(rng, 1, 130, 1, 64, dtype=DTYPES[dtype])) for _ in "qk")
    ones = cp.asarray(np.ones((1, 130, 1, 64), DTYPES[dtype]))
    assert (cp.asnumpy(rocke_cupy.attention(q, k, ones, **mask)) == 1).all()


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_values_of_one_give_one_within_a_rounding_however_large_the_scores(cp, rng, dtype):
    q = random(rng, 1, 130, 1, 64, dtype=DTYPES[dtype])
    ones = cp.asarray(np.ones((1, 130, 1, 64), DTYPES[dtype]))
    q = cp.asarray((8 * q.astype(np.float32)).astype(q.dtype))
    out = cp.asnumpy(rocke_cupy.attention(q, q, ones)).astype(np.float64)
    assert abs(out - 1).max() <= float(ml_dtypes.finfo(DTYPES[dtype]).eps) / 2


def test_zero_queries_give_the_mean_and_the_log_of_the_count(cp, rng):
    q = cp.asarray(np.zeros((1, 3, 1, 64), np.float16))
    values = random(rng, 1, 200, 1, 64, dtype=np.float16)
    k = cp.asarray(random(rng, 1, 200, 1, 64, dtype=np.float16))
    out, lse = rocke_cupy.attention(q, k, cp.asarray(values), return_lse=True)
    np.testing.assert_allclose(cp.asnumpy(lse), np.log(200), rtol=1e-6)
    mean = values[0, :, 0].astype(np.float64).mean(axis=0)
    np.testing.assert_allclose(cp.asnumpy(out)[0, 0, 0], mean, atol=1e-3)


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param([(n - 1, n) for n in (1, 64, 65, 200)], id="one token at a time"),
        pytest.param([(0, 3), (3, 67), (67, 131), (131, 200)], id="chunks"),
    ],
)
def test_decoding_and_chunks_equal_the_rows_of_the_whole(cp, rng, bounds):
    cache = [cp.asarray(random(rng, 1, 256, 2, 64)) for _ in "kv"]
    q = cp.asarray(random(rng, 1, 200, 4, 64))
    whole, whole_lse = rocke_cupy.attention(
        q, *(c[:, :200] for c in cache), causal=True, return_lse=True
    )
    for i, j in bounds:
        keys = [c[:, :j] for c in cache]
        step, lse = rocke_cupy.attention(q[:, i:j], *keys, causal=True, return_lse=True)
        np.testing.assert_allclose(
            bits(step, cp).astype(int), bits(whole, cp)[:, i:j].astype(int), atol=1
        )
        np.testing.assert_allclose(
            cp.asnumpy(lse), cp.asnumpy(whole_lse)[:, :, i:j], rtol=0, atol=2e-6
        )


def test_kv_lens_of_a_cache_equal_slices_of_it(cp, rng):
    lens = [90, 3, 64, 0]
    q = cp.asarray(random(rng, 4, 5, 4, 64))
    cache = random(rng, 2, 4, 128, 2, 64)
    for b, n in enumerate(lens):
        cache[:, b, n:] = np.nan
    k, v = (cp.asarray(c) for c in cache)
    out = rocke_cupy.attention(q, k, v, causal=True, kv_lens=cp.asarray(np.array(lens, np.int32)))
    for b, n in enumerate(lens):
        alone = rocke_cupy.attention(q[b : b + 1], k[b : b + 1, :n], v[b : b + 1, :n], causal=True)
        np.testing.assert_array_equal(bits(out, cp)[b], bits(alone, cp)[0])


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("kind", ["list", "int64", "host", "strided"])
def test_kv_lens_in_any_form(cp, qkv, kind, check):
    exact = np.array([90, 7], np.int32)
    given = {
        "list": [90, 7],
        "int64": cp.asarray(exact.astype(np.int64)),
        "host": exact,
        "strided": cp.asarray(np.repeat(exact, 2))[::2],
    }[kind]
    expected = rocke_cupy.attention(*qkv, kv_lens=cp.asarray(exact))
    for _ in range(2):  # the second call finds its plan
        out = rocke_cupy.attention(*qkv, kv_lens=given, check=check)
        np.testing.assert_array_equal(bits(out, cp), bits(expected, cp))


def test_bad_kv_lens_of_a_repeated_call_are_refused(cp, qkv):
    rocke_cupy.attention(*qkv, kv_lens=cp.asarray(np.array([90, 7], np.int32)))
    with pytest.raises(ValueError, match=r"kv_lens\[1\]=91 must be from 0 to the 90 keys"):
        rocke_cupy.attention(*qkv, kv_lens=cp.asarray(np.array([90, 91], np.int32)))
    with pytest.raises(ValueError, match=r"kv_lens\.shape=\(3,\)"):
        rocke_cupy.attention(*qkv, kv_lens=[1, 2, 3])
    with pytest.raises(TypeError, match="check="):
        rocke_cupy.attention(*qkv, kv_lens=[1, 2], check=1)


def test_nan_in_the_next_batch_entry_changes_nothing(cp, rng):
    q, k, v = (random(rng, 3, 70, 2, 64) for _ in "qkv")
    clean = bits(rocke_cupy.attention(*map(cp.asarray, (q, k, v))), cp)
    for array in (q, k, v):
        array[1] = np.nan
    spoiled = bits(rocke_cupy.attention(*map(cp.asarray, (q, k, v))), cp)
    np.testing.assert_array_equal(spoiled[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("name", "qkv")
def test_nan_that_a_row_sees_shows_in_it(cp, rng, name):
    arrays = dict(zip("qkv", (random(rng, 1, 70, 1, 64) for _ in "qkv"), strict=True))
    arrays[name][0, 66] = np.nan
    out = cp.asnumpy(rocke_cupy.attention(*map(cp.asarray, arrays.values()), causal=True))
    rows = out[0, :, 0].astype(np.float32)
    assert np.isnan(rows[66 : 67 if name == "q" else 70]).all()
    if name == "q":
        assert np.isfinite(np.delete(rows, 66, axis=0)).all()


def test_a_row_whose_scores_are_all_minus_infinity_is_nan_not_empty(cp, rng):
    q, k, v = (random(rng, 1, 70, 1, 64) for _ in "qkv")
    q[..., 0] = np.abs(q[..., 0]) + 1
    k[:, :3, :, 0] = -np.inf
    arrays = [cp.asarray(a) for a in (q, k, v)]
    out, lse = rocke_cupy.attention(*arrays, causal=True, return_lse=True)
    rows, sums = cp.asnumpy(out)[0, :, 0].astype(np.float32), cp.asnumpy(lse)[0, 0]
    assert np.isnan(rows[:3]).all()
    assert np.isnan(sums[:3]).all()
    assert np.isfinite(rows[3:]).all()
    assert np.isfinite(sums[3:]).all()


def test_a_view_at_an_odd_offset_finds_its_own_plan(cp, rng):
    buffer = cp.asarray(random(rng, 1, 40, 2, 72))
    k = cp.asarray(random(rng, 1, 40, 2, 64))
    aligned = rocke_cupy.attention(buffer[..., :64], k, k)
    assert aligned.shape == (1, 40, 2, 64)
    shifted = buffer[..., 4:68]
    assert shifted.shape == aligned.shape
    assert shifted.strides == buffer[..., :64].strides
    out = rocke_cupy.attention(shifted, k, k)
    copy = Fenced(cp.asnumpy(buffer)[..., 4:68], cp).array
    np.testing.assert_array_equal(bits(out, cp), bits(rocke_cupy.attention(copy, k, k), cp))


def test_many_shapes_compile_two_binaries(cp, monkeypatch):
    calls.kept.calls.clear()
    compiled = []
    real = build._compile
    monkeypatch.setattr(build, "_built", {})
    monkeypatch.setattr(
        build, "_compile", lambda *call: compiled.append(call[0].name) or real(*call)
    )
    from rocke_cupy.emulator.device import active, configure

    nothing = configure(execute=False) if active() else None
    shapes = [
        (b, sq, skv, h, hkv)
        for b in (1, 3) for sq in (300, 511, 1024, 4096, 5000) for skv in (1, 64, 1000, 1024, 2000)
        for h, hkv in ((1, 1), (6, 6))
    ]  # fmt: skip
    assert len(shapes) == 100
    if nothing is None:
        shapes = shapes[:20]
        nothing = cp.cuda.Device()
    with nothing:
        for b, sq, skv, h, hkv in shapes:
            q = cp.empty((b, sq, h, 64), np.float16)
            k = cp.empty((b, skv, hkv, 64), np.float16)
            rocke_cupy.attention(q, k, k, causal=True)
    # Of workgroups with 256 rows, and with 128.
    assert len(compiled) == len(set(compiled)) <= 2


def test_the_current_stream_is_used(cp, qkv):
    expected = rocke_cupy.attention(*qkv)
    with cp.cuda.Stream() as stream:
        out = rocke_cupy.attention(*qkv)
    stream.synchronize()
    np.testing.assert_array_equal(bits(out, cp), bits(expected, cp))


def test_twenty_repeats_are_bitwise_equal(cp, qkv):
    first = bits(rocke_cupy.attention(*qkv, causal=True), cp)
    for _ in range(20):
        np.testing.assert_array_equal(bits(rocke_cupy.attention(*qkv, causal=True), cp), first)


def test_old_plans_do_not_pile_up(cp, qkv, monkeypatch):
    calls.kept.calls.clear()
    monkeypatch.setattr(calls, "_KEPT_CALLS", 5)
    q, k, v = qkv
    for n in range(1, 20):
        rocke_cupy.attention(q[:, :n], k, v)
        assert len(calls.kept.calls) <= 5


def test_plans_of_packed_sequences_do_not_pile_up(cp, monkeypatch):
    monkeypatch.setattr(calls, "_KEPT_LENGTHS", 3)
    calls.kept.calls.clear()
    q = cp.zeros((20, 1, 64), np.float16)
    for n in range(1, 20):
        rocke_cupy.attention_varlen(q, q, q, [0, n], [0, n])
    (known,) = calls.kept.calls.values()
    assert len(known.__self__._plans) <= 3


def test_a_call_within_a_call_is_kept_under_its_own_key(cp, qkv, monkeypatch):
    q, k, v = qkv
    alone = bits(rocke_cupy.attention(q[:, :3], k[:, :5], v[:, :5]), cp)
    calls.kept.calls.clear()
    prepare = calls.prepare

    def interrupted(*given, **named):
        monkeypatch.setattr(calls, "prepare", prepare)
        rocke_cupy.attention(q[:, :3], k[:, :5], v[:, :5])  # as a signal's handler may
        return prepare(*given, **named)

    monkeypatch.setattr(calls, "prepare", interrupted)
    rocke_cupy.attention(q, k, v)
    again = rocke_cupy.attention(q[:, :3], k[:, :5], v[:, :5])
    np.testing.assert_array_equal(bits(again, cp), alone)


def test_a_call_with_one_argument_changed_differs(cp, qkv):
    changes = [
        dict(), dict(causal=True), dict(softmax_scale=0.3), dict(window_size=(9, 9)),
        dict(causal=True, causal_alignment="top_left"), dict(window_size=(9, 8)),
        dict(kv_lens=[89, 90]), dict(kv_lens=[90, 89]), dict(softmax_scale=0.0),
    ]  # fmt: skip
    results = [bits(rocke_cupy.attention(*qkv, **change), cp).tobytes() for change in changes]
    assert len(set(results)) == len(changes)
    again = [bits(rocke_cupy.attention(*qkv, **change), cp).tobytes() for change in changes]
    assert results == again


@pytest.mark.parametrize(
    ("mask", "same"),
    [
        (dict(causal=True), dict(window_size=(-1, 0))),
        (dict(causal=True), dict(causal=True, window_size=(None, 50))),
        (dict(causal=True), dict(causal=True, window_size=(90, -1))),
        (dict(), dict(window_size=(90, 90))),
        (dict(), dict(causal_alignment="top_left")),
        (dict(), dict(kv_lens=[90, 90])),
        (dict(), dict(softmax_scale=0.125)),
        # 20 keys more than queries: so far apart are the diagonals of the two alignments.
        (dict(causal=True), dict(causal_alignment="top_left", window_size=(-1, 20))),
    ],
    ids=str,
)
def test_arguments_that_mean_the_same_give_bitwise_the_same(cp, qkv, mask, same):
    first, second = (rocke_cupy.attention(*qkv, return_lse=True, **a) for a in (mask, same))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(bits(a, cp), bits(b, cp))


def test_show_config_names_the_device(cp, capsys):
    rocke_cupy.show_config()
    printed = capsys.readouterr().out
    assert "gfx950" in printed
    assert "virtual" in printed


def test_compile_builds_what_calls_then_use(cp, monkeypatch):
    names = rocke_cupy.compile(60, np.float32, window_size=(3, 3), compute_dtype="float16")
    # Heads packed or not, keys split or not, within 2 GiB or not, 256 rows or 128; two copies and
    # a merge.
    assert len(set(names)) == len(names) == 16 + 3
    monkeypatch.setattr(build, "_compile", None)
    for seqlen_q, seqlen_kv, heads in ((1, 70, 8), (300, 70, 2), (1, 5000, 2)):
        q = cp.asarray(np.zeros((1, seqlen_q, heads, 60), np.float32))
        k = cp.asarray(np.zeros((1, seqlen_kv, 1, 60), np.float32))
        rocke_cupy.attention(q, k, k, window_size=(4000, 4000), compute_dtype="float16")


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        ((64, np.float32), TypeError, "needs compute_dtype"),
        ((300, np.float16), NotImplementedError, "head_dim=300, the largest supported is 256"),
        ((0, np.float16), ValueError, "head_dim=0, it must be at least 1"),
        ((True, np.float16), TypeError, "head_dim=True must be a whole number"),
        ((64, np.int8), TypeError, "dtype=int8"),
        ((64.0, np.float16), TypeError, "head_dim=64.0 must be a whole number"),
        ((-8, np.float16), ValueError, "head_dim=-8 must be a whole number, not negative"),
        ((64, "fp8"), TypeError, "dtype='fp8' must be the dtype of an array"),
        ((64, None), TypeError, "dtype=None must be the dtype of an array"),
    ],
)
def test_compile_refuses_what_a_call_refuses(cp, call, error, sentence):
    with pytest.raises(error, match=sentence):
        rocke_cupy.compile(*call)

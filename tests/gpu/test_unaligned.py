"""Lengths and LSEs that start anywhere in memory, such as behind a header of three bytes."""

import numpy as np
import pytest
from helpers.gpu import bits, random
from helpers.specs import spec

import rocke_cupy

pytestmark = pytest.mark.gpu

OFFSETS = range(1, 8)


def behind_header(cp, array, offset):
    """Return a device array whose elements start so many bytes after an aligned address.

    What stands before and after it would be other lengths.
    """
    memory = cp.asarray(np.frombuffer(b"\x07" * offset + array.tobytes() + b"\x07" * 8, np.uint8))
    view = memory[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
    assert view.data.ptr % 8 == offset
    return view


@pytest.fixture
def qkv(cp, rng):
    return [cp.asarray(random(rng, 2, n, 2, 16)) for n in (3, 600, 600)]


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_kv_lens(dtype, check, cp, qkv):
    lengths = np.array([2, 300], dtype)
    expected = rocke_cupy.attention(*qkv, kv_lens=lengths)
    for offset in OFFSETS:
        given = behind_header(cp, lengths, offset)
        out = rocke_cupy.attention(*qkv, kv_lens=given, check=check)
        np.testing.assert_array_equal(bits(out, cp), bits(expected, cp))


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_cu_seqlens(dtype, check, cp, rng):
    q, k, v = (cp.asarray(random(rng, 300, 2, 16)) for _ in "qkv")
    starts_q, starts_k = np.array([0, 20, 299], dtype), np.array([0, 270, 277], dtype)
    expected = rocke_cupy.attention_varlen(q, k, v, starts_q, starts_k)
    for offset in OFFSETS:
        given = (behind_header(cp, s, offset) for s in (starts_q, starts_k))
        out = rocke_cupy.attention_varlen(q, k, v, *given, max_seqlen_q=279, check=check)
        np.testing.assert_array_equal(bits(out, cp), bits(expected, cp))


@pytest.mark.parametrize("check", [True, False])
def test_lengths_of_a_spec(check, cp, qkv):
    q, k, v = qkv
    out, expected = cp.empty_like(q), cp.empty_like(q)
    one = spec(
        seqlen_q=3, seqlen_kv=600, num_query_heads=2, num_kv_heads=2, head_size=16,
        ragged=True, key_lengths=True,
    )  # fmt: skip
    call = dict(spec=one, q=q, k=k, v=v, scale=0.25, check=check)
    rocke_cupy.run_attention_dense(**call, out=expected, kv_lens=[2, 300])
    for offset in OFFSETS:
        lengths = behind_header(cp, np.array([2, 300], np.int32), offset)
        rocke_cupy.run_attention_dense(**call, out=out, kv_lens=lengths)
        np.testing.assert_array_equal(bits(out, cp), bits(expected, cp))


def test_parts_to_merge(cp, rng):
    outs = [random(rng, 1, 5, 2, 9) for _ in range(2)]
    lses = [rng.standard_normal((1, 2, 5)).astype(np.float32) for _ in range(2)]
    expected = rocke_cupy.merge_states(*([cp.asarray(a) for a in part] for part in (outs, lses)))
    for offset in OFFSETS:
        given = ([behind_header(cp, a, offset) for a in part] for part in (outs, lses))
        for got, right in zip(rocke_cupy.merge_states(*given), expected, strict=True):
            np.testing.assert_array_equal(bits(got, cp), bits(right, cp))

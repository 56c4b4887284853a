"""Offsets past 32 bits: strides, lengths and element counts that do not fit an int."""

import contextlib

import numpy as np
import pytest
from helpers.budget import budget, worst
from helpers.gpu import bits, random

import rocke_cupy

pytestmark = pytest.mark.gpu

FLOAT16 = np.dtype(np.float16)


def only_workgroups(numbers):
    """Execute some workgroups only, where an emulator would take hours for all of them."""
    from rocke_cupy.emulator import device

    if not device.active():
        return contextlib.nullcontext()
    return device.configure(workgroups=numbers)


def sparse(cp, shape, strides, first=0):
    """Return an array of any strides in memory of its own, of which only touched pages exist."""
    span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + FLOAT16.itemsize
    memory = cp.cuda.alloc(span + first)
    return cp.ndarray(shape, FLOAT16, memory + first, strides)


def put(cp, array, values):
    """Copy values into a part of a device array, row by row: rows are contiguous."""
    for index in np.ndindex(values.shape[:-1]):
        array[index].set(np.ascontiguousarray(values[index]))


def assert_same_as_contiguous(cp, arrays, host, **arguments):
    """Call with the arrays as they are, compare bitwise with contiguous ones, and return out."""
    plain = rocke_cupy.attention(*map(cp.asarray, host), **arguments)
    out = rocke_cupy.attention(**arrays, **arguments)
    np.testing.assert_array_equal(bits(out, cp), bits(plain, cp))
    return out


def assert_head(cp, out, q, k, v, sees):
    expected = budget(q, k, v, q.shape[-1] ** -0.5, sees, FLOAT16, FLOAT16)
    assert worst(cp.asnumpy(out), expected.out, expected.allowed)[0] <= 1


@pytest.mark.parametrize("name", ["q", "k", "v", "out"])
def test_a_batch_stride_past_two_to_the_31_elements(cp, rng, name):
    shape, far = (2, 65, 1, 64), 2**31 + 2**20
    host = [random(rng, *shape, dtype=FLOAT16) for _ in "qkv"]
    arrays = dict(zip(("q", "k", "v"), map(cp.asarray, host), strict=True))
    arrays["out"] = cp.empty(shape, FLOAT16)
    strided = sparse(cp, shape, (far * 2, 128, 128, 2))
    for b in range(2):
        if name != "out":
            strided[b].set(host["qkv".index(name)][b])
    arrays[name] = strided
    out = assert_same_as_contiguous(cp, arrays, host)
    for b in range(2):
        q, k, v = (a[b, :, 0] for a in host)
        assert_head(cp, out[b, :, 0], q, k, v, np.ones((65, 65), bool))


@pytest.mark.parametrize("name", ["q", "out"])
def test_a_token_stride_of_many_megabytes(cp, rng, name):
    shape, step = (1, 70, 1, 64), 2**26
    host = [random(rng, *shape, dtype=FLOAT16) for _ in "qkv"]
    arrays = dict(zip(("q", "k", "v"), map(cp.asarray, host), strict=True))
    arrays["out"] = cp.empty(shape, FLOAT16)
    strided = sparse(cp, shape, (step * 70, step, 128, 2))
    if name == "q":
        put(cp, strided, host[0])
    arrays[name] = strided
    out = assert_same_as_contiguous(cp, arrays, host, causal=True)
    q, k, v = (a[0, :, 0] for a in host)
    sees = np.tril(np.ones((70, 70), bool))
    expected = budget(q, k, v, 0.125, sees, FLOAT16, FLOAT16)
    for i in (0, 1, 63, 64, 69):
        got = cp.asnumpy(out[0, i, 0])
        assert worst(got, expected.out[i], expected.allowed[i])[0] <= 1


# Bytes from key to key: offsets within the head need more than 32 bits, and those within a tile.
@pytest.mark.parametrize("step", [2**24, 2**26])
@pytest.mark.parametrize("name", ["k", "v"])
def test_keys_of_one_head_that_span_more_than_4_gib(cp, rng, name, step):
    keys = 2**32 // step + 10
    host = [random(rng, 1, n, 1, 64, dtype=FLOAT16) for n in (70, keys, keys)]
    arrays = dict(zip(("q", "k", "v"), map(cp.asarray, host), strict=True))
    strided = sparse(cp, host[1].shape, (step * keys, step, 128, 2))
    put(cp, strided, host["qkv".index(name)])
    arrays[name] = strided
    out = assert_same_as_contiguous(cp, arrays, host)
    q, k, v = (a[0, :, 0] for a in host)
    assert_head(cp, out[0, :, 0], q, k, v, np.ones((70, keys), bool))


# The last block of rows of the last head and batch entry: by the grid's order the last workgroup.
# By the order of `attention`, each of 8 dies has 16 heads, and a head's last block comes first.
@pytest.mark.parametrize(("public", "workgroup"), [(False, 2**17 - 1), (True, 8 * 15 * 1024 + 7)])
def test_exactly_two_to_the_31_elements(cp, rng, public, workgroup):
    # B x S x H x D = 2 x 2**18 x 64 x 64. The last block of rows sees the last keys only.
    shape = (2, 2**18, 64, 64)
    contiguous = (2**18 * 64 * 128, 64 * 128, 128, 2)
    assert np.prod(shape, dtype=object) == 2**31
    arrays = {n: sparse(cp, shape, contiguous) for n in ("q", "k", "v", "out")}
    host = {n: random(rng, 300, 64, dtype=FLOAT16) for n in "qkv"}
    for n in "qkv":
        put(cp, arrays[n][1, -300:, 63], host[n])
    spec = rocke_cupy.AttentionDenseSpec(
        2, 2**18, 2**18, 64, 64, 64, dtype="fp16", ragged=True, sliding_window=100,
    )  # fmt: skip
    assert spec.num_work_items == 2**17
    with only_workgroups([workgroup]):
        if public:
            rocke_cupy.attention(**arrays, causal=True, window_size=(99, 0))
        else:
            rocke_cupy.run_attention_dense(spec=spec, scale=0.125, **arrays)
    i, j = np.arange(300)[:, None], np.arange(300)[None]
    sees = (j <= i) & (j > i - 100)
    got = cp.asnumpy(arrays["out"][1, -200:, 63])
    expected = budget(host["q"], host["k"], host["v"], 0.125, sees, FLOAT16, FLOAT16)
    assert worst(got, expected.out[-200:], expected.allowed[-200:])[0] <= 1


def test_more_than_65535_heads_and_batch_entries(cp, rng):
    shape = (70_000, 1, 1, 64)
    q = random(rng, *shape, dtype=FLOAT16)
    arrays = {n: cp.asarray(q) for n in ("q", "k", "v")}
    spec = rocke_cupy.AttentionDenseSpec(70_000, 1, 1, 1, 1, 64, dtype="fp16", ragged=True)
    out = cp.empty(shape, FLOAT16)
    entries = [0, 65_535, 65_536, 69_999]
    with only_workgroups(entries):
        rocke_cupy.run_attention_dense(spec=spec, out=out, scale=1.0, **arrays)
    for b in entries:
        np.testing.assert_array_equal(cp.asnumpy(out[b]), q[b])  # one key: its value

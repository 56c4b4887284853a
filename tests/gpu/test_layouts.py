"""The same values in another layout give bitwise the same result: no numeric oracle needed."""

import numpy as np
import pytest
from helpers.gpu import bits, random

import rocke_cupy

pytestmark = pytest.mark.gpu

SHAPES = {"q": (2, 37, 4, 64), "k": (2, 71, 2, 64), "v": (2, 71, 2, 64), "out": (2, 37, 4, 64)}


def moved(cp, host, layout):
    """Return the values of ``host`` on the device as a view of another layout."""
    shape = host.shape
    if layout == "transposed heads":
        return cp.asarray(np.ascontiguousarray(host.transpose(0, 2, 1, 3))).transpose(0, 2, 1, 3)
    if layout == "tokens outermost":
        return cp.asarray(np.ascontiguousarray(host.transpose(1, 0, 2, 3))).transpose(1, 0, 2, 3)
    if layout == "slice of a fused array":
        fused = np.full((*shape[:2], 3, *shape[2:]), np.nan, host.dtype)
        fused[:, :, 1] = host
        return cp.asarray(fused)[:, :, 1]
    if layout == "columns of wider rows":
        wide = np.full((*shape[:3], 96), np.nan, host.dtype)
        wide[..., 16:80] = host
        return cp.asarray(wide)[..., 16:80]
    if layout == "every other token":
        sparse = np.full((shape[0], 2 * shape[1], *shape[2:]), np.nan, host.dtype)
        sparse[:, ::2] = host
        return cp.asarray(sparse)[:, ::2]
    if layout == "heads backwards":
        return cp.asarray(np.ascontiguousarray(host[:, :, ::-1]))[:, :, ::-1]
    if layout == "batch backwards":
        return cp.asarray(np.ascontiguousarray(host[::-1]))[::-1]
    if layout == "cache longer than its content":
        cache = np.full((shape[0], 200, *shape[2:]), np.nan, host.dtype)
        cache[:, : shape[1]] = host
        return cp.asarray(cache)[:, : shape[1]]
    # The kernel cannot take these as they are.
    if layout == "tokens backwards":
        return cp.asarray(np.ascontiguousarray(host[:, ::-1]))[:, ::-1]
    if layout == "columns apart":
        apart = np.full((*shape[:3], 2 * shape[3]), np.nan, host.dtype)
        apart[..., ::2] = host
        return cp.asarray(apart)[..., ::2]
    if layout == "columns backwards":
        return cp.asarray(np.ascontiguousarray(host[..., ::-1]))[..., ::-1]
    if layout == "odd start":
        flat = np.full(host.size + 1, np.nan, host.dtype)
        flat[1:] = host.ravel()
        return cp.asarray(flat)[1:].reshape(shape)
    if layout == "odd steps":
        wide = np.full((*shape[:3], shape[3] + 1), np.nan, host.dtype)
        wide[..., :-1] = host
        return cp.asarray(wide)[..., :-1]
    if layout == "columns before tokens":
        return cp.asarray(np.ascontiguousarray(host.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)
    raise ValueError(layout)


LAYOUTS = [
    "transposed heads", "tokens outermost", "slice of a fused array", "columns of wider rows",
    "every other token", "heads backwards", "batch backwards", "cache longer than its content",
    "tokens backwards", "columns apart", "columns backwards", "odd start", "odd steps",
    "columns before tokens",
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", list(SHAPES))
def test_result_does_not_depend_on_the_layout_of(cp, rng, name, layout):
    host = {n: random(rng, *shape) for n, shape in SHAPES.items()}
    host["out"][...] = np.nan
    arrays = {n: cp.asarray(a) for n, a in host.items()}
    plain = rocke_cupy.attention(**arrays, causal=True)
    arrays["out"] = cp.asarray(host["out"])
    arrays[name] = moved(cp, host[name], layout)
    assert arrays[name].shape == SHAPES[name]
    base = arrays["out"].base if arrays["out"].base is not None else arrays["out"]
    before = bits(base, cp)
    out = rocke_cupy.attention(**arrays, causal=True)
    assert out is arrays["out"]
    np.testing.assert_array_equal(bits(out, cp), bits(plain, cp))
    # Nothing beside the view was written.
    assert (bits(base, cp) != before).sum() <= out.size


@pytest.mark.parametrize(("name", "axis"), [(n, a) for n in "qkv" for a in range(4)])
def test_a_broadcast_axis_is_that_axis_repeated(cp, rng, name, axis):
    host = {n: random(rng, *SHAPES[n]) for n in "qkv"}
    one = host[name].take([0], axis=axis)
    host[name] = np.ascontiguousarray(np.broadcast_to(one, SHAPES[name]))
    expected = rocke_cupy.attention(*(cp.asarray(a) for a in host.values()))
    arrays = {n: cp.asarray(a) for n, a in host.items()}
    arrays[name] = cp.broadcast_to(cp.asarray(one), SHAPES[name])
    np.testing.assert_array_equal(bits(rocke_cupy.attention(**arrays), cp), bits(expected, cp))


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_slices_of_one_fused_projection(cp, rng, layout):
    fused = cp.asarray(random(rng, 2, 33, 3, 2, 64))
    q, k, v = (fused[:, :, i] for i in range(3))
    if layout == "bhsd":
        q, k, v = (a.transpose(0, 2, 1, 3) for a in (q, k, v))
    out = rocke_cupy.attention(q, k, v, causal=True, layout=layout)
    copies = [cp.asarray(np.ascontiguousarray(cp.asnumpy(a))) for a in (q, k, v)]
    expected = rocke_cupy.attention(*copies, causal=True, layout=layout)
    np.testing.assert_array_equal(bits(out, cp), bits(expected, cp))


def test_one_array_for_all_three(cp, rng):
    x = cp.asarray(random(rng, 1, 50, 2, 64))
    copies = [cp.asarray(cp.asnumpy(x)) for _ in "qkv"]
    np.testing.assert_array_equal(
        bits(rocke_cupy.attention(x, x, x), cp), bits(rocke_cupy.attention(*copies), cp)
    )

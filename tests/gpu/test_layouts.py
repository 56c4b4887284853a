"""The same values in another layout give bitwise the same result: no numeric oracle needed."""

import numpy as np
import pytest
from helpers.gpu import bits, random

import rocke_cupy

pytestmark = pytest.mark.gpu

SHAPES = {"q": (2, 37, 4, 64), "k": (2, 71, 2, 64), "v": (2, 71, 2, 64), "out": (2, 37, 4, 64)}


# The shape of the memory for an array (B, S, H, D), and the view of it that is the array.
LAYOUTS = {
    "transposed heads": (lambda b, s, h, d: (b, h, s, d), lambda m: m.transpose(0, 2, 1, 3)),
    "tokens outermost": (lambda b, s, h, d: (s, b, h, d), lambda m: m.transpose(1, 0, 2, 3)),
    "slice of a fused array": (lambda b, s, h, d: (b, s, 3, h, d), lambda m: m[:, :, 1]),
    "columns of wider rows": (lambda b, s, h, d: (b, s, h, d + 32), lambda m: m[..., 16:-16]),
    "every other token": (lambda b, s, h, d: (b, 2 * s, h, d), lambda m: m[:, ::2]),
    "heads backwards": (lambda b, s, h, d: (b, s, h, d), lambda m: m[:, :, ::-1]),
    "batch backwards": (lambda b, s, h, d: (b, s, h, d), lambda m: m[::-1]),
    "cache longer than its content": (lambda b, s, h, d: (b, s + 99, h, d), lambda m: m[:, :-99]),
    # The kernel cannot take these as they are.
    "tokens backwards": (lambda b, s, h, d: (b, s, h, d), lambda m: m[:, ::-1]),
    "columns apart": (lambda b, s, h, d: (b, s, h, 2 * d), lambda m: m[..., ::2]),
    "columns backwards": (lambda b, s, h, d: (b, s, h, d), lambda m: m[..., ::-1]),
    "odd start": (lambda b, s, h, d: (b, s, h, d + 8), lambda m: m[..., 1:-7]),
    "odd steps": (lambda b, s, h, d: (b, s, h, d + 1), lambda m: m[..., :-1]),
    "columns before tokens": (lambda b, s, h, d: (b, h, d, s), lambda m: m.transpose(0, 3, 1, 2)),
}


def moved(cp, host, layout):
    """Return the values of ``host`` on the device as a view of another layout."""
    shape, view = LAYOUTS[layout]
    memory = np.full(shape(*host.shape), np.nan, host.dtype)
    view(memory)[...] = host
    return view(cp.asarray(memory))


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

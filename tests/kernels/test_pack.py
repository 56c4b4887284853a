"""The copying kernel on the emulator: casts, layouts and padding, with NaN around everything."""

import itertools

import numpy as np
import pytest
from helpers import code_objects
from helpers.compiled import assert_nothing_spilled, compile_source, resources
from helpers.fences import Fenced
from helpers.problems import DTYPES
from helpers.rounding import nearest

from rocke_cupy.emulator import run
from rocke_cupy.kernels.rows import copy_kernel, copy_shape

CASTS = code_objects.ROW_PAIRS[copy_kernel]

cast_names = pytest.mark.parametrize(
    ("source", "destination"), CASTS, ids=["-to-".join(c) for c in CASTS]
)


def copy(source, destination, rocm="7.0", buffers=None, **options):
    """Copy one array to another on the emulator."""
    name, code = compile_source(copy_kernel(source.dtype, destination.dtype), rocm)
    grid, shape = copy_shape(source, destination)
    arguments = [source, destination, np.asarray(shape)]
    return run(code, name, grid, (256,), arguments, buffers=buffers, **options)


def assert_copied(source, shape, dtype, **options):
    """Copy into a fenced array of NaN, and compare with NumPy's answer."""
    inside, outside = Fenced(source), Fenced.empty(shape, dtype)
    copy(inside.array, outside.array, **options)
    columns = min(source.shape[-1], shape[-1])
    expected = np.zeros(shape, dtype)
    expected[..., :columns] = nearest(source[..., :columns], dtype)
    np.testing.assert_array_equal(bits(outside.array), bits(expected))
    inside.assert_fence_intact()
    outside.assert_fence_intact()


def bits(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def values(rng, shape, dtype):
    return nearest(rng.standard_normal(shape) * 10, DTYPES[dtype])


@cast_names
@pytest.mark.parametrize("rocm", ["7.0", "7.14"])
def test_no_registers_are_spilled(source, destination, rocm):
    kernel = copy_kernel(DTYPES[source], DTYPES[destination])
    assert_nothing_spilled(kernel, rocm)
    assert resources(kernel, rocm).vgprs <= 64, "eight waves a SIMD hide the latency of a copy"


@cast_names
@pytest.mark.parametrize("memory", ["lazy", "eager"])
@pytest.mark.parametrize("rocm", ["7.0", "7.14"])
def test_each_cast_pads_with_zeros(source, destination, memory, rocm, rng):
    array = values(rng, (2, 5, 3, 33), source)
    assert_copied(array, (2, 5, 3, 40), DTYPES[destination], memory=memory, rocm=rocm)


@cast_names
def test_each_cast_drops_columns(source, destination, rng):
    assert_copied(values(rng, (2, 5, 3, 40), source), (2, 5, 3, 33), DTYPES[destination])


HARD = np.array(
    [0.0, 1.0, np.inf, 65504, 65519.99999, 65520, 65536, 1e39, 3.39e38, 2.0**-14, 2.0**-24,
     2.0**-25, 1.0000001 * 2.0**-25, 2.0**-26, 1e-38, 1e-40, 2.0**-133, 2.0**-134, 2.0**-149,
     1e-60, 5e-324, 1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 1 + 3 * 2.0**-8, 1 + 2.0**-11,
     1 + 2.0**-11 - 2.0**-50, 1 + 2.0**-11 + 2.0**-50, 1 + 3 * 2.0**-11, 2 - 2.0**-12,
     3.3961775292304957e38, np.float64(np.float32(3.4028234e38))]
)  # fmt: skip


@pytest.mark.parametrize("destination", ["bf16", "fp16"])
@pytest.mark.parametrize("source", ["fp32", "fp64"])
def test_values_at_every_edge_round_to_nearest_even_once(source, destination, rng):
    # Ties, neighbours of ties, overflow, and both ends of the denormals; then values of all sizes.
    spread = np.exp(rng.uniform(-105, 88, 4000))
    largest = int(np.array(np.inf, DTYPES[destination]).view(np.uint16)) - 1
    below = rng.integers(0, largest, 4000).astype(np.uint16)
    low, high = (
        b.view(DTYPES[destination]).astype(np.float64) for b in (below, below + np.uint16(1))
    )
    near = (low + high) / 2 * (1 + rng.choice([0, 2.0**-23, -(2.0**-23), 2.0**-40], 4000))
    every = np.concatenate([HARD, spread, near])
    with np.errstate(over="ignore"):
        every = every.astype(DTYPES[source])
    every = np.concatenate([every, -every])
    array = every[: every.size // 8 * 8].reshape(1, 1, -1, 8)
    assert_copied(array, array.shape, DTYPES[destination])


@cast_names
def test_nan_stays_nan(source, destination):
    payloads = np.full((1, 1, 2, 8), np.nan, DTYPES[source])
    if source == "fp64":  # only in the bits that no narrower type has
        payloads.view(np.uint64)[...] = 0xFFF0_0000_0000_0001
    out = np.zeros(payloads.shape, DTYPES[destination])
    copy(payloads, out)
    assert np.isnan(out).all()


def layouts(array):
    """Return views that hold the values of ``array`` in other orders."""
    batch, tokens, heads, columns = array.shape
    moved = np.ascontiguousarray(array.transpose(3, 0, 2, 1)).transpose(1, 3, 2, 0)
    fused = np.zeros((batch, tokens, heads, 3, columns), array.dtype)
    fused[:, :, :, 1] = array
    odd = np.zeros((batch, tokens, heads, columns + 1), array.dtype)
    odd[..., 1:] = array
    spread = np.zeros((batch, tokens, heads, 2 * columns), array.dtype)
    spread[..., ::2] = array
    backwards = np.ascontiguousarray(array[::-1, ::-1, ::-1, ::-1])[::-1, ::-1, ::-1, ::-1]
    unaligned = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    unaligned[...] = array
    return {
        "columns-outermost": moved,
        "fused": fused[:, :, :, 1],
        "rows-of-odd-length": odd[..., 1:],
        "every-other-column": spread[..., ::2],
        "backwards": backwards,
        "at-an-odd-address": unaligned,
    }


LAYOUTS = tuple(layouts(np.zeros((1, 1, 1, 1), np.float16)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_packs_from_any_layout(layout, dtype, rng):
    array = values(rng, (2, 37, 3, 21), dtype)
    out = Fenced.empty((2, 37, 3, 24), np.float16)
    copy(layouts(array)[layout], out.array)
    np.testing.assert_array_equal(out.array[..., :21], array.astype(np.float16))
    assert not out.array[..., 21:].any()
    out.assert_fence_intact()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("source", "destination"), [("bf16", "bf16"), ("fp32", "fp64")])
def test_unpacks_to_any_layout(layout, source, destination, rng):
    array = values(rng, (2, 37, 3, 24), source)
    view = layouts(np.full((2, 37, 3, 21), np.nan, DTYPES[destination]))[layout]
    memory = view
    while memory.base is not None:
        memory = memory.base
    memory_before, view_before = memory.tobytes(), view.copy()
    copy(array, view)
    np.testing.assert_array_equal(view.astype(np.float64), array[..., :21].astype(np.float64))
    view[...] = view_before
    assert memory.tobytes() == memory_before, "something beside the view was written"


def test_a_broadcast_axis_is_read_again_and_again(rng):
    array = values(rng, (1, 7, 1, 16), "bf16")
    wide = np.broadcast_to(array, (3, 7, 4, 16))
    out = np.zeros(wide.shape, wide.dtype)
    copy(wide, out)
    np.testing.assert_array_equal(bits(out), bits(wide))


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1, 1), (1, 1023, 1, 8), (3, 129, 5, 1), (65, 1, 33, 7), (2, 300, 2, 256), (7, 256)],
    ids=str,
)
def test_odd_sizes(shape, rng):
    columns = -(-shape[-1] // 8) * 8
    assert_copied(values(rng, shape, "fp16"), (*shape[:-1], columns), np.dtype(np.float16))


def test_rows_are_read_in_whole_lines():
    """A contiguous copy moves each byte once and needs no single-element access."""
    array, out = np.ones((1, 64, 2, 128), np.float16), np.zeros((1, 64, 2, 128), np.float16)
    report = copy(array, out)
    waves = array.size // 8 // 64
    assert report.count("global_load_dwordx4") == waves == report.count("global_store_dwordx4")
    assert report.count("global_load_ushort*") == report.count("global_load_short*") == 0
    assert report.global_bytes[1] == out.nbytes


def test_offsets_past_two_to_the_31_elements(rng):
    """Rows 4 GiB apart, of which the source has some and the destination others."""
    row = 2**32 + 6  # bytes: no multiple of 4
    memory = np.zeros(3 * row + 64, np.uint8)  # never touched, so never there
    source = np.lib.stride_tricks.as_strided(
        memory.view(np.float16)[:1], (1, 4, 1, 9), (0, row, 0, 2)
    )
    source[...] = values(rng, source.shape, "fp16")
    packed = Fenced.empty((1, 4, 1, 16), np.float16)
    copy(source, packed.array, buffers=[memory])
    np.testing.assert_array_equal(packed.array[..., :9], source)
    packed.assert_fence_intact()
    expected = source[0, ::-1].copy()
    copy(np.ascontiguousarray(source[:, ::-1]), source, buffers=[memory])
    np.testing.assert_array_equal(source[0], expected)


def test_more_tiles_than_workgroups_are_strided_over(rng, monkeypatch):
    monkeypatch.setattr("rocke_cupy.kernels.rows._WORKGROUPS", 3)
    array = values(rng, (1, 5000, 1, 8), "fp16")
    assert_copied(array, array.shape, np.dtype(np.float16))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_axes_are_walked_in_the_order_of_memory(order, rng):
    array = values(rng, (4, 6, 10, 16), "fp16").transpose(*order, 3)
    report = copy(array, np.zeros(array.shape, array.dtype))
    assert report.count("global_load_dwordx4") == -(-array.size // 8 // 64)

"""Kernel arguments: their C layout, and strides in elements."""

import numpy as np
import pytest

from rocke_cupy.gpu import launch
from rocke_cupy.rules.masks import Masks


def packed(**numbers):
    strides = {name: (100 * i, 10 * i, i) for i, name in enumerate("qkvo", 1)}
    return launch.pack_shape(strides=strides, masks=Masks(5, 6, True), **numbers)


def value_of(field):
    return int(field["value"] if field.dtype.names else field)


def test_each_field_holds_what_it_is_named_after():
    plain = [
        n
        for n in launch.SHAPE.names
        if n not in {*"qkvo", "window_left", "window_right", "top_left"}
    ]
    shape = packed(**{name: 1000 + i for i, name in enumerate(plain)})
    assert [value_of(shape[name]) for name in plain] == [1000 + i for i in range(len(plain))]
    assert [tuple(map(int, shape[n])) for n in "qo"] == [(100, 10, 1), (400, 40, 4)]
    assert (shape["window_left"], shape["window_right"], shape["top_left"]) == (5, 6, 1)


def test_fields_that_are_not_named_are_zero():
    shape = packed(batch=3)
    assert value_of(shape["batch"]) == 3
    others = ("seqlen_q", "num_splits", "lse_head", "total_q")
    assert not any(value_of(shape[name]) for name in others)


def test_a_product_with_the_reciprocal_is_the_quotient():
    rng = np.random.default_rng(0)
    numbers = [1, 2, 3, 5, 7, 12, 641, 2**16 - 1, 2**16, 2**16 + 1, 2**30 - 1, 2**30, 2**31 - 1]
    for value in numbers + rng.integers(1, 2**31, 200).tolist():
        kept, multiplier, shift = launch.divisor(value)
        assert (kept, multiplier >> 32) == (value, 0)
        edges = np.arange(value, 2**31, max(value, 2**31 // 1000 // value * value), dtype=np.int64)
        for n in (*edges, *(edges - 1), *rng.integers(0, 2**31, 100), 0, 2**31 - 1):
            assert (2 * int(n) * multiplier >> 32) >> shift == int(n) // value


def test_large_strides_and_negative_ones_fit():
    shape = launch.pack_shape(
        strides={n: (2**62, -(2**40), 0) for n in "qkvo"}, masks=Masks(2**30, 2**30, False)
    )
    assert tuple(map(int, shape["v"])) == (2**62, -(2**40), 0)


def test_a_field_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="no field sequence"):
        packed(sequence=3)


@pytest.mark.parametrize(
    ("scale", "exponent"),
    [
        (0.125, 0), (0, 0), (-3e38, 0), (2.0**-120, 0),
        (0.99 * 2.0**-120, -1), (-(2.0**-149), -29), (1e-300, -877), (5e-324, -954),
    ],
)  # fmt: skip
def test_a_small_scale_goes_into_the_queries(scale, exponent):
    kept, found = launch.split_scale(scale)
    assert found == exponent
    assert np.ldexp(kept, found) == scale
    assert not scale or abs(kept) >= 2.0**-120


def test_strides_are_in_elements_and_zero_for_axes_that_are_not_stepped_over():
    array = np.zeros((4, 1, 6, 8), np.float16)[::-1, :, ::2]
    assert launch.element_strides(array, (0, 1, 2)) == (-48, 0, 16)
    assert launch.element_strides(array[0], (-1, 1, 0)) == (0, 16, 0)

"""CuPy's own kernels on the virtual device, against NumPy: scripts run as users write them.

CuPy compiles a kernel for each operation and each type, and a compilation is most of what a test
costs here. So each operation is met with one type, and each type with one operation; the others
are slow: ``python -m rocke_cupy.emulator -m pytest -m slow tests/emulator/test_cupy_kernels.py``.
"""

import itertools

import ml_dtypes
import numpy as np
import pytest

from rocke_cupy.emulator import device

pytestmark = pytest.mark.gpu
slow = pytest.mark.slow


def rarely(*values):
    """Return parameters for the slow tests."""
    return [pytest.param(value, marks=slow) for value in values]


@pytest.fixture(autouse=True)
def _virtual():
    if not device.active():
        pytest.skip("the device here is a real one")


@pytest.fixture
def both(cp, rng):
    """Run a function on NumPy and on CuPy arrays of the same values, and compare the results."""

    def compare(function, *arrays, exact=False):
        expected = function(np, *arrays)
        result = function(cp, *map(cp.asarray, arrays)).get()
        assert result.dtype == np.asarray(expected).dtype
        if exact:
            np.testing.assert_array_equal(result, expected)
        else:
            np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-6)

    return compare


def values(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["b1", "f4", "c8", *rarely("i1", "u2", "i4", "i8", "f2", "f8")])
def test_filled_arrays(cp, dtype):
    for function in (cp.zeros, cp.ones):
        array = function((3, 5), dtype).get()
        assert array.dtype == dtype
        assert (array == (function is cp.ones)).all()
    assert (cp.full(7, 1, dtype).get() == 1).all()


def test_ranges(both):
    both(lambda xp: xp.arange(5, 50, 3, dtype=np.int32), exact=True)
    both(lambda xp: xp.linspace(0, 1, 77))


@slow
def test_triangles(both):
    both(lambda xp: xp.arange(1000), exact=True)
    both(lambda xp: xp.tril(xp.ones((6, 7), np.float32), -1), exact=True)
    both(lambda xp: xp.eye(5, 6, 1), exact=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, *rarely(np.float64)])
def test_arithmetic_rounds_as_numpy_does(both, rng, dtype):
    a, b = values(rng, 4, 70, dtype=dtype), values(rng, 70, dtype=dtype)
    both(lambda xp, a, b: a + b * a, a, b, exact=dtype != np.float16)


@pytest.mark.parametrize("dtype", [np.float32, *rarely(np.float16, np.float64)])
def test_choices(both, rng, dtype):
    a, b = values(rng, 4, 70, dtype=dtype), values(rng, 70, dtype=dtype)
    both(lambda xp, a, b: xp.where(a < b, a, dtype(2)), a, b, exact=True)


@slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_comparisons(both, rng, dtype):
    a, b = values(rng, 4, 70, dtype=dtype), values(rng, 70, dtype=dtype)
    both(lambda xp, a, b: a - b, a, b, exact=True)
    both(lambda xp, a, b: xp.maximum(a, b), a, b, exact=True)
    both(lambda xp, a, b: (a >= b) & (a != b) | ~(b > 0), a, b, exact=True)
    both(lambda xp, a, b: xp.abs(-a).clip(0.5, 1), a, b, exact=True)


def test_division_and_functions(both, rng):
    a, b = values(rng, 300), 1 + np.abs(values(rng, 300))
    both(lambda xp, a, b: a / b, a, b)
    both(lambda xp, a, b: xp.exp(a), a, b)
    both(lambda xp, a, b: xp.sin(a), a, b)
    both(lambda xp, a, b: b**a, a, b)


@slow
def test_more_functions(both, rng):
    a, b = values(rng, 300), 1 + np.abs(values(rng, 300))
    both(lambda xp, a, b: xp.log(b) + xp.sqrt(b) + xp.log2(b) + xp.exp2(a), a, b)
    both(lambda xp, a, b: xp.cos(a) + xp.tanh(a), a, b)
    both(lambda xp, a, b: xp.rint(3 * a) + xp.floor(a) + xp.ceil(b), a, b, exact=True)


def test_integers(both, rng):
    a = rng.integers(-1000, 1000, 200).astype(np.int32)
    b = rng.integers(1, 40, 200).astype(np.int32)
    both(lambda xp, a, b: a // b, a, b, exact=True)
    both(lambda xp, a, b: a << (b & 3), a, b, exact=True)


@slow
def test_more_with_integers(both, rng):
    a = rng.integers(-1000, 1000, 200).astype(np.int32)
    b = rng.integers(1, 40, 200).astype(np.int32)
    both(lambda xp, a, b: a // b + a % b * 7, a, b, exact=True)
    both(lambda xp, a, b: (a << (b & 3)) ^ (a >> 2) | b, a, b, exact=True)
    both(lambda xp, a, b: a.astype(np.int64) * b * 100000, a, b, exact=True)


NOT_FINITE = np.array([1, np.nan, np.inf, -np.inf, 0, -0.0], np.float32)


def test_nan_and_infinity(both):
    both(lambda xp, a: xp.isnan(a).any(), NOT_FINITE, exact=True)


@slow
def test_more_of_nan_and_infinity(both):
    both(lambda xp, a: xp.isnan(a), NOT_FINITE, exact=True)
    both(lambda xp, a: xp.isfinite(a) | xp.isinf(a), NOT_FINITE, exact=True)
    both(lambda xp, a: xp.nan_to_num(a), NOT_FINITE, exact=True)


CASTS = list(itertools.product(["i4", "f2", "f4", "f8"], repeat=2))
USUAL_CASTS = [("i4", "f4"), ("f4", "f2"), ("f8", "i4")]


@pytest.mark.parametrize("cast", [*USUAL_CASTS, *rarely(*(set(CASTS) - set(USUAL_CASTS)))])
def test_casts(both, rng, cast):
    source, target = cast
    a = (values(rng, 100) * 20).astype(source)
    both(lambda xp, a: a.astype(target), a, exact=True)


def test_bfloat16_casts_round_to_nearest_even(cp, rng):
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    # the last two are half-way between two: to the even one
    a = np.concatenate([values(rng, 100) * 1e3, [np.inf, np.nan, 1.00390625, 1.01171875]])
    a = a.astype(np.float32)
    expected = a.astype(bfloat16)
    result = cp.asarray(a).astype(bfloat16)
    np.testing.assert_array_equal(result.get().view(np.uint16), expected.view(np.uint16))
    back = result.astype(np.float32).get()
    np.testing.assert_array_equal(back, expected.astype(np.float32))


def test_bfloat16_arithmetic(cp, rng):
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    a, b = values(rng, 64).astype(bfloat16), values(rng, 64).astype(bfloat16)
    x, y = cp.asarray(a), cp.asarray(b)
    np.testing.assert_array_equal((x + y).get(), a + b)
    assert x.max().get() == a.max()


SHAPES = [(1,), (63,), (4, 70), (3, 5, 129), (2, 1030)]


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions(both, rng, shape):
    a = values(rng, *shape)
    both(lambda xp, a: xp.asarray(a.sum()), a)
    both(lambda xp, a: a.max(axis=-1), a, exact=True)


@slow
@pytest.mark.parametrize("shape", SHAPES)
def test_more_reductions(both, rng, shape):
    a = values(rng, *shape)
    both(lambda xp, a: xp.asarray(a.mean()), a)
    both(lambda xp, a: a.min(axis=0), a, exact=True)
    both(lambda xp, a: a.sum(axis=0, keepdims=True), a)
    both(lambda xp, a: a.argmax(axis=-1), a, exact=True)
    both(lambda xp, a: (a > 0).all(axis=-1), a, exact=True)
    both(lambda xp, a: xp.linalg.norm(a.ravel()), a)


@pytest.mark.parametrize("axis", [0, 1, *rarely(None)])
def test_cumulative_sums_in_workgroups_whose_waves_end_early(both, rng, axis):
    both(lambda xp, a: xp.cumsum(a, axis=axis), rng.integers(0, 100, (5, 130)), exact=True)


def test_views_and_indexing(both, rng):
    a = values(rng, 7, 9, 11)
    both(lambda xp, a: xp.ascontiguousarray(a[1:, ::2, ::-1].transpose(2, 0, 1)), a, exact=True)
    both(lambda xp, a: a[:, [0, 3, 3, 8]], a, exact=True)
    both(lambda xp, a: a[a > 0.5], a, exact=True)


@slow
def test_joining_and_taking(both, rng):
    a = values(rng, 7, 9, 11)
    both(lambda xp, a: a[1:, ::2, ::-1] + 1, a, exact=True)
    both(lambda xp, a: xp.concatenate([a, a[:2]], axis=0), a, exact=True)
    both(lambda xp, a: xp.stack([a, a], axis=1), a, exact=True)
    both(lambda xp, a: xp.repeat(a, 2, axis=1), a, exact=True)
    both(lambda xp, a: xp.nonzero(a > 1)[2], a, exact=True)
    both(lambda xp, a: xp.take(a, xp.asarray([2, 1]), axis=2), a, exact=True)


def test_assignment(both, rng):
    def assign(xp, a, i):
        a = a.copy()
        a[2:4, 1] = 5
        a[i] = a[3]
        a += 1
        return a

    both(assign, values(rng, 7, 9), np.array([0, 6]), exact=True)


def test_sorting_with_kernels_that_came_compiled(both, rng):
    a = values(rng, 300)
    both(lambda xp, a: xp.sort(a), a, exact=True)
    both(lambda xp, a: xp.argsort(a), a, exact=True)


@slow
def test_sorting_among_other_kernels(both, rng):
    a = values(rng, 300)
    both(lambda xp, a: xp.unique((a * 3).astype(np.int32)), a, exact=True)


def test_a_random_generator_with_kernels_that_came_compiled(cp):
    numbers = cp.random.default_rng(1).random(1000).get()
    assert 0 <= numbers.min() < 0.01
    assert 0.99 < numbers.max() < 1
    assert len(set(numbers.tolist())) == 1000
    np.testing.assert_array_equal(cp.random.default_rng(1).random(1000).get(), numbers)


def test_kernels_that_the_user_writes(cp, rng):
    a, b = values(rng, 5, 30), values(rng, 30)
    squares = cp.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squares")
    result = squares(cp.asarray(a), cp.asarray(b)).get()
    np.testing.assert_allclose(result, (a - b) ** 2, rtol=1e-6)
    norm = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "norm")
    expected = np.sqrt((a * a).sum(axis=1))
    np.testing.assert_allclose(norm(cp.asarray(a), axis=1).get(), expected, rtol=1e-6)


def test_a_softmax_as_one_writes_it(both, rng):
    def softmax(xp, a):
        exponentials = xp.exp(a - a.max(axis=-1, keepdims=True))
        return exponentials / exponentials.sum(axis=-1, keepdims=True)

    both(softmax, values(rng, 6, 100))


def test_printing_and_comparing(cp):
    a = cp.asarray([0.5, 1.5, 2.5])
    assert str(a) == "[0.5 1.5 2.5]"
    assert float(a[1]) == 1.5
    assert cp.allclose(a, a)
    assert not cp.allclose(a, a[::-1])

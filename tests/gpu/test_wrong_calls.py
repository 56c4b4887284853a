"""The wrong calls of NumPy arrays are wrong calls of CuPy arrays, with the same sentences."""

import numpy as np
import pytest
from helpers.wrong_calls import BF16, WRONG_CALLS, call_dense, call_packed, zeros

import rocke_cupy
from rocke_cupy.rules.options import Options

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("wrong", WRONG_CALLS, ids=lambda wrong: wrong.name)
def test_wrong_call_is_refused(wrong, cp):
    with pytest.raises(wrong.error, match=wrong.sentence):
        wrong.call(cp.asarray)


def error_of(call, changes, put):
    try:
        call(changes, put)
    except Exception as error:  # whatever it is, the other library must raise it too
        return type(error), str(error)
    return None


@pytest.mark.parametrize("call", [call_dense, call_packed], ids=lambda call: call.__name__)
def test_of_two_mistakes_both_libraries_find_the_same(call, cp, rng):
    mistakes = [w.mistake for w in WRONG_CALLS if w.mistake and w.call.func is call]
    found = set()
    for _ in range(500):
        first, second = rng.choice(len(mistakes), 2)
        changes = mistakes[first] | mistakes[second]
        expected = error_of(call, changes, lambda array: array)
        assert error_of(call, changes, cp.asarray) == expected, changes
        found.add(expected)
    assert len(found) > 15


class Wrapper:
    """Whatever delegates to an array has its attributes, yet is none."""

    def __init__(self, array):
        self._array = array

    def __getattr__(self, name):
        return getattr(self._array, name)


@pytest.mark.parametrize("name", ["q", "k", "v", "out"])
def test_a_wrapper_is_refused_after_an_equal_call_too(name, cp):
    x = cp.asarray(zeros(1, 33, 1, 8))
    arrays = dict(q=x, k=x, v=x, out=cp.empty_like(x))
    wrapped = {**arrays, name: Wrapper(arrays[name])}
    for _ in range(2):
        with pytest.raises(TypeError, match=f"{name} must be a numpy.ndarray or a cupy.ndarray"):
            rocke_cupy.attention(**wrapped)
        rocke_cupy.attention(**arrays)


# For an option a right value and one that equals it, yet is wrong. Texts equal no other class's
# values; all others are whole numbers.
EQUALS = {
    "softmax_scale": (1.0, True),
    "causal": (True, 1),
    "window_size": ((1, 0), (True, False)),
    "compute_dtype": (np.dtype(np.float16), "half"),
    "return_lse": (True, 1),
    "check": (True, 1.0),
}
NUMBER = (1, True)


@pytest.mark.parametrize(
    "name", [n for n, default in Options._field_defaults.items() if not isinstance(default, str)]
)
def test_an_equal_value_of_another_class_is_judged_by_itself(name, cp):
    right, wrong = EQUALS.get(name, NUMBER)
    q = cp.zeros((1, 1, 8), np.float32)
    arrays = (q, q, q, [0, 1], [0, 1]) if name.startswith("max") else (q[None],) * 3
    function = rocke_cupy.attention_varlen if name.startswith("max") else rocke_cupy.attention
    options = {"compute_dtype": "float16"}
    for _ in range(2):
        function(*arrays, **{**options, name: right})
        with pytest.raises((TypeError, ValueError), match=f"{name}="):
            function(*arrays, **{**options, name: wrong})


class Foreign:
    """An array of another library, which knows it by its interface."""

    def __init__(self, array):
        self.array, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


def test_bfloat16_that_an_interface_lost_is_told_how_to_travel(cp):
    x = cp.asarray(np.arange(24).reshape(1, 3, 1, 8).astype(BF16))
    lost = cp.asarray(Foreign(x))
    with pytest.raises(TypeError, match=r"hand over \.view\(numpy\.uint16\), and take \.view"):
        rocke_cupy.attention(lost, lost, lost)
    arrived = cp.asarray(Foreign(x.view(np.uint16))).view(BF16)
    assert (rocke_cupy.attention(arrived, arrived, arrived) == rocke_cupy.attention(x, x, x)).all()


@pytest.mark.parametrize("name", ["q", "k", "v", "out"])
def test_mixing_libraries_is_refused(name, cp):
    arrays = {n: cp.asarray(zeros(1, 4, 2, 16)) for n in ("q", "k", "v", "out")}
    arrays[name] = zeros(1, 4, 2, 16)
    with pytest.raises(TypeError, match=rf"\b{name} (is )?a numpy array"):
        rocke_cupy.attention(arrays.pop("q"), arrays.pop("k"), arrays.pop("v"), **arrays)


def test_numpy_arrays_with_lengths_on_the_device_are_refused(cp):
    q = zeros(1, 4, 2, 16)
    with pytest.raises(TypeError, match="kv_lens a cupy array"):
        rocke_cupy.attention(q, q, q, kv_lens=cp.asarray(np.array([3], np.int32)))


@pytest.mark.parametrize("flag", [1, 0, None, "yes"])
def test_a_right_call_before_does_not_let_a_wrong_one_pass(flag, cp):
    q = cp.asarray(zeros(1, 4, 2, 64))
    for value in (True, False):
        rocke_cupy.attention(q, q, q, causal=value)
        rocke_cupy.attention(q, q, q, return_lse=value)
    with pytest.raises(TypeError, match="causal="):
        rocke_cupy.attention(q, q, q, causal=flag)
    with pytest.raises(TypeError, match="return_lse="):
        rocke_cupy.attention(q, q, q, return_lse=flag)
    with pytest.raises(TypeError, match="check="):
        rocke_cupy.attention(q, q, q, check=flag)


def test_a_right_window_before_does_not_let_a_wrong_one_pass(cp):
    q = cp.asarray(zeros(1, 4, 2, 64))
    rocke_cupy.attention(q, q, q, window_size=(1, 0))
    for wrong in ((True, 0), (1.0, 0), (1, False), (1, 0.0)):
        with pytest.raises(TypeError, match="window_size="):
            rocke_cupy.attention(q, q, q, window_size=wrong)


def test_a_right_compute_dtype_before_does_not_let_a_wrong_one_pass(cp):
    q = cp.asarray(zeros(1, 4, 2, 64, dtype=np.float32))
    rocke_cupy.attention(q, q, q, compute_dtype=np.dtype(np.float16))
    with pytest.raises(ValueError, match="compute_dtype='half' must be"):
        rocke_cupy.attention(q, q, q, compute_dtype="half")


def test_a_scale_of_another_class_is_compared_without_a_warning(cp):
    q = cp.asarray(zeros(1, 4, 2, 64))
    rocke_cupy.attention(q, q, q, softmax_scale=np.float16(0.5))
    rocke_cupy.attention(q, q, q, softmax_scale=1e30)


def test_reference_takes_no_cupy_arrays(cp):
    q = cp.asarray(zeros(1, 4, 2, 16))
    with pytest.raises(TypeError, match=r"rocke_cupy\.reference takes NumPy arrays"):
        rocke_cupy.reference.attention(q, q, q)


def test_an_overlap_of_a_repeated_call_is_refused_too(cp):
    buffer = cp.asarray(zeros(1, 8, 2, 64))
    k = cp.asarray(zeros(1, 4, 2, 64))
    rocke_cupy.attention(buffer[:, :4], k, k, out=buffer[:, 4:])
    with pytest.raises(ValueError, match="out overlaps q"):
        rocke_cupy.attention(buffer[:, :4], k, k, out=buffer[:, 2:6])

"""The wrong calls of NumPy arrays are wrong calls of CuPy arrays, with the same sentences."""

import numpy as np
import pytest
from helpers.wrong_calls import WRONG_CALLS, zeros

import rocke_cupy

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("wrong", WRONG_CALLS, ids=lambda wrong: wrong.name)
def test_wrong_call_is_refused(wrong, cp):
    with pytest.raises(wrong.error, match=wrong.sentence):
        wrong.call(cp.asarray)


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

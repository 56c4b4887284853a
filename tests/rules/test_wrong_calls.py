"""Wrong calls: each is refused with a sentence that names the argument, its value and the rule."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from helpers.wrong_calls import WRONG_CALLS

import rocke_cupy
from rocke_cupy.rules.arrays import _repeats, check_overlap
from rocke_cupy.rules.masks import Masks, check_masks
from rocke_cupy.rules.numbers import check_scale


@pytest.mark.parametrize("wrong", WRONG_CALLS, ids=lambda wrong: wrong.name)
def test_wrong_call_is_refused(wrong):
    with pytest.raises(wrong.error, match=wrong.sentence):
        wrong.call(lambda array: array)


def test_names_of_the_wrong_calls_differ():
    assert len({wrong.name for wrong in WRONG_CALLS}) == len(WRONG_CALLS)


def bf16(*shape):
    return np.zeros(shape, ml_dtypes.bfloat16)


@pytest.mark.parametrize("kind", [np.ma.masked_array, np.matrix])
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_array_subclasses_with_another_meaning_are_refused(kind):
    q = bf16(1, 2, 1, 8)
    odd = kind(np.zeros((2, 2)))
    with pytest.raises(TypeError, match=r"k must be a numpy\.ndarray or"):
        rocke_cupy.attention(q, odd, q)


def test_read_only_out_is_refused():
    q, out = bf16(1, 2, 1, 8), bf16(1, 2, 1, 8)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="out must be writeable"):
        rocke_cupy.attention(q, q, q, out=out)


def test_read_only_inputs_are_fine():
    q = bf16(1, 2, 1, 8)
    q.flags.writeable = False
    assert rocke_cupy.attention(q, q, q).shape == q.shape


def test_out_interleaved_with_an_input_is_fine():
    fused = np.zeros((1, 6, 4, 2, 8), np.float16)
    fused[:, :, :3] = np.arange(6 * 3 * 16).reshape(6, 3, 2, 8) % 7
    q, k, v, out = (fused[:, :, i] for i in range(4))
    expected = rocke_cupy.attention(*(np.ascontiguousarray(a) for a in (q, k, v)))
    assert rocke_cupy.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        lambda a: a[::-1],
        lambda a: a.T,
        lambda a: a[:, ::2],
        lambda a: a[..., :1],
        lambda a: np.broadcast_to(a[:, :0], (6, 0, 4)),
        lambda a: np.diagonal(np.zeros((5, 3, 5))),
    ],
)
def test_views_that_repeat_nothing_are_recognised(make):
    assert not _repeats(make(np.zeros((6, 5, 4))))


@pytest.mark.parametrize(
    ("shape", "strides"), [((3, 4), (0, 8)), ((3, 4), (8, 8)), ((2, 2), (8, 4)), ((3,), (-4,))]
)
def test_views_that_repeat_elements_are_recognised(shape, strides):
    view = np.lib.stride_tricks.as_strided(np.zeros(100)[50:], shape, strides)
    assert _repeats(view)


def test_overlap_that_is_too_hard_to_decide_counts_as_one(monkeypatch):
    def too_hard(a, b, max_work):
        raise np.exceptions.TooHardError

    monkeypatch.setattr(np, "shares_memory", too_hard)
    fused = np.zeros((4, 2, 8), np.float16)
    with pytest.raises(ValueError, match="out overlaps q"):
        check_overlap(fused[:, 0], q=fused[:, 1])


def test_lengths_beyond_32_bit_arithmetic_are_refused():
    long = np.broadcast_to(np.zeros((1, 1, 1, 8), np.float16), (1, 2**30, 1, 8))
    with pytest.raises(ValueError, match=r"k.shape=.* has 1073741824 tokens, the limit is"):
        rocke_cupy.attention(long[:, :1], long, long)


@pytest.mark.parametrize(
    "lens",
    [
        [7, 0], np.array([7, 0]), np.array([7, 0], np.int32), (7, 0), [np.int64(7), 0],
        [np.int16(7), np.int16(0)], [np.uint8(7), np.uint8(0)], [np.uint64(7), 0],
    ],
    ids=repr,
)  # fmt: skip
def test_lengths_may_be_a_list_or_either_integer(lens):
    q, k = bf16(2, 3, 1, 8), bf16(2, 7, 1, 8)
    _, lse = rocke_cupy.attention(q, k, k, kv_lens=lens, return_lse=True)
    np.testing.assert_allclose(lse[0], np.log(7), rtol=1e-6)
    assert np.isneginf(lse[1]).all()


@pytest.mark.parametrize("window", [(None, None), (-1, None), [-1, -1], (2**40, 2**40)])
def test_ways_to_say_unlimited(window):
    assert check_masks(False, window, "bottom_right", 0) == check_masks(
        False, (-1, -1), "bottom_right", 0
    )


def test_numpy_scalars_are_numbers_and_flags():
    masks = check_masks(np.True_, (np.int64(3), np.int8(5)), "top_left", np.int8(0))
    assert masks == Masks(3, 0, True)
    assert check_scale(np.float32(0.5), 64) == 0.5
    assert check_scale(3, 64) == 3
    assert check_scale(ml_dtypes.bfloat16(0.5), 64) == 0.5
    assert check_scale(np.array(0.5), 64) == check_scale(np.array(0.5, "f2"), 64) == 0.5
    assert check_scale(np.array(2), 64) == 2


@pytest.mark.parametrize("given", ["bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)])
def test_compute_dtype_of_the_inputs_may_be_named(given):
    q = bf16(1, 2, 1, 8)
    assert rocke_cupy.attention(q, q, q, compute_dtype=given).dtype == q.dtype


def test_a_numpy_call_imports_neither_cupy_nor_the_emulator():
    code = (
        "import sys, numpy as np, rocke_cupy\n"
        "q = np.ones((1, 3, 2, 8), np.float16)\n"
        "assert (rocke_cupy.attention(q, q, q, causal=True) == 1).all()\n"
        "assert (rocke_cupy.attention_varlen(q[0], q[0], q[0], [0, 3], [0, 3]) == 1).all()\n"
        "rocke_cupy.build_attention_dense(rocke_cupy.AttentionDenseSpec(1, 256, 256, 2, 2, 64))\n"
        "loaded = [m for m in sys.modules if m.startswith(('cupy', 'rocke_cupy.emulator'))]\n"
        "assert not loaded, loaded\n"
    )
    # -I: not even a cupy that lies in the current folder.
    subprocess.run([sys.executable, "-I", "-W", "error", "-c", code], check=True, timeout=60)


def test_public_names_exist():
    for name in rocke_cupy.__all__:
        assert getattr(rocke_cupy, name) is not None

"""What a NumPy user has set or loaded elsewhere does not touch his calls."""

import subprocess
import sys
import types
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

import rocke_cupy
from rocke_cupy import reference

HALF_IMPORTED = types.ModuleType("cupy")
STUBS = {
    "nothing in it": HALF_IMPORTED,
    "a mock": mock.MagicMock(),
    "its arrays are NumPy's": SimpleNamespace(ndarray=np.ndarray),
    "no module at all": None,
}


@pytest.mark.parametrize("stub", STUBS)
def test_numpy_arrays_do_not_care_what_is_called_cupy(stub, monkeypatch):
    q, out = np.ones((1, 3, 1, 8), np.float16), np.zeros((1, 3, 1, 8), np.float16)
    monkeypatch.setitem(sys.modules, "cupy", STUBS[stub])
    assert (rocke_cupy.attention(q, q, q, kv_lens=[2], out=out) == 1).all()
    assert (rocke_cupy.attention_varlen(q[0], q[0], q[0], [0, 3], np.array([0, 3])) == 1).all()
    merged, _ = rocke_cupy.merge_states([q], [np.zeros((1, 1, 3), np.float32)])
    assert (merged == 1).all()
    with pytest.raises(TypeError, match=r"q must be a numpy\.ndarray or a cupy\.ndarray"):
        rocke_cupy.attention([1], q, q)


@pytest.mark.parametrize("stub", ["nothing in it", "a mock"])
def test_the_set_up_tells_of_a_cupy_that_is_none(stub, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", STUBS[stub])
    rocke_cupy.show_config()
    assert "is not CuPy: it has no arrays" in capsys.readouterr().out
    with pytest.raises(ImportError, match="is not CuPy"):
        rocke_cupy.compile(64, "float16")


def test_a_call_in_the_middle_of_an_import_of_cupy():
    code = (
        "import sys, types, numpy as np, rocke_cupy\n"
        "q = np.ones((1, 3, 1, 8), np.float16)\n"
        "class Finder:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'cupy.inner': assert (rocke_cupy.attention(q, q, q) == 1).all()\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.modules['cupy'] = types.ModuleType('cupy'); sys.modules['cupy'].__path__ = []\n"
        "try: import cupy.inner\n"
        "except ModuleNotFoundError: print('went on')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "went on\n"


def large_scores(rng):
    """Inputs whose softmax has weights that underflow."""
    return 30 * rng.standard_normal((1, 30, 2, 16)).astype(np.float16)


STRICT_CALLS = {
    "large scores": lambda q: partial(rocke_cupy.attention, q, q, q),
    "values near zero": lambda q: partial(rocke_cupy.attention, q, q, np.full_like(q, 6e-8)),
    "values near the top": lambda q: partial(rocke_cupy.attention, q, q, np.full_like(q, 65504)),
    "NaN": lambda q: partial(rocke_cupy.attention, q, np.full_like(q, np.nan), q),
    "rounded to zero": lambda q: partial(
        rocke_cupy.attention, *[q.astype(np.float64) * 1e-30] * 3, compute_dtype="float16"
    ),
    "rounded to infinity": lambda q: partial(
        rocke_cupy.attention, *[q.astype(np.float64) * 1e30] * 3, compute_dtype="float16"
    ),
    "the oracle": lambda q: partial(reference.attention, *[q.astype(np.float64) * 1e-200] * 3),
    "packed": lambda q: partial(
        rocke_cupy.attention_varlen, q[0], q[0], q[0], [0, 30], [0, 30], causal=True
    ),
}


@pytest.mark.parametrize("name", STRICT_CALLS)
def test_a_strict_numpy_is_no_error(name, rng):
    call = STRICT_CALLS[name](large_scores(rng))
    expected = call()
    with np.errstate(all="raise"):
        out = call()
    np.testing.assert_array_equal(out, expected)


def test_merging_under_a_strict_numpy_is_no_error(rng):
    q = large_scores(rng)
    halves = [
        rocke_cupy.attention(q, q[:, keys], q[:, keys], return_lse=True)
        for keys in (slice(0, 3), slice(3, 30))
    ]
    expected = rocke_cupy.merge_states(*zip(*halves, strict=True))[0]
    with np.errstate(all="raise"):
        merged = rocke_cupy.merge_states(*zip(*halves, strict=True))[0]
    np.testing.assert_array_equal(merged, expected)

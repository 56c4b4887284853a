"""A float32 `out` for inputs of 16 bits: the result before its last rounding."""

import ml_dtypes
import numpy as np
import pytest
from helpers.gpu import bits, random

import rocke_cupy

EACH_DTYPE = pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])


@pytest.mark.gpu
@EACH_DTYPE
@pytest.mark.parametrize("head_dim", [64, 50, 200])
@pytest.mark.parametrize("splits", [1, 3])
def test_rounded_it_is_the_narrow_result(dtype, head_dim, splits, cp, rng):
    q, k, v = (cp.asarray(random(rng, 1, n, 1, head_dim, dtype=dtype)) for n in (70, 500, 500))
    wide = rocke_cupy.attention(
        q, k, v, out=cp.empty(q.shape, np.float32), causal=True, num_splits=splits
    )
    narrow = rocke_cupy.attention(q, k, v, causal=True, num_splits=splits)
    assert (wide != wide.astype(dtype).astype(np.float32)).any()
    rounded, narrow = bits(cp.asnumpy(wide).astype(dtype)), bits(narrow, cp)
    # What is next to the middle of two narrow values may be rounded from more digits in a merge.
    assert np.abs(rounded.astype(int) - narrow).max() <= (splits > 1)
    assert (rounded != narrow).mean() < 1e-3


@EACH_DTYPE
def test_numpy_gives_more_digits_too(dtype, rng):
    q, k, v = (random(rng, 1, n, 2, 64, dtype=dtype) for n in (7, 50, 50))
    wide = rocke_cupy.attention(q, k, v, out=np.empty(q.shape, np.float32))
    exact = rocke_cupy.reference.attention(*(x.astype(np.float64) for x in (q, k, v)))
    np.testing.assert_allclose(wide, exact, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("library", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(
    ("given", "wanted", "sentence"),
    [
        (np.float16, np.float64, "out.dtype=float64 must equal q.dtype=float16, or be float32"),
        (np.float16, ml_dtypes.bfloat16, "out.dtype=bfloat16 must equal q.dtype=float16, or be"),
        (np.float32, np.float16, "out.dtype=float16 must equal q.dtype=float32$"),
    ],
)
def test_no_other_dtype(library, given, wanted, sentence):
    xp = pytest.importorskip(library)
    q = xp.zeros((1, 4, 2, 64), given)
    with pytest.raises(TypeError, match=sentence):
        rocke_cupy.attention(q, q, q, compute_dtype="float16", out=xp.zeros(q.shape, wanted))

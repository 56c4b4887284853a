"""Rounding to a narrower type, from its definition."""

import functools

import numpy as np


def nearest(array, dtype):
    """Return an array rounded to the nearest values of a dtype, ties to even.

    ml_dtypes rounds float64 to bfloat16 twice, over float32. Here the 16-bit values themselves are
    searched; midpoints of neighbours are exact in float64.
    """
    dtype = np.dtype(dtype)
    if dtype.itemsize != 2 or np.dtype(array.dtype).itemsize == 2:
        return array.astype(dtype)
    magnitudes, midpoints = _steps(dtype)
    exact = np.abs(array.astype(np.float64))
    with np.errstate(invalid="ignore"):
        # The index is the bit pattern, so that an even one has an even last bit.
        below = np.searchsorted(midpoints, exact, side="left")
        above = np.searchsorted(midpoints, exact, side="right")
    index = np.where(below % 2 == 0, below, above)
    rounded = np.where(np.isnan(exact), np.float64("nan"), magnitudes[index])
    return np.copysign(rounded, array.astype(np.float64)).astype(dtype)


@functools.cache
def _steps(dtype):
    """Return all non-negative values, infinity last, and the midpoints between them."""
    infinity = int(np.array(np.inf, dtype).view(np.uint16))
    values = np.arange(infinity + 1, dtype=np.uint16).view(dtype).astype(np.float64)
    # Infinity begins where the next power of two would be rounded to.
    steps = values.copy()
    steps[-1] = 2 * steps[-2] - steps[-3]
    return values, (steps[1:] + steps[:-1]) / 2

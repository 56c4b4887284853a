"""The one table of element types, the rules on them, and the one way to round to them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT16 = np.dtype(np.float16)
FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)

SHORT_NAMES = {BFLOAT16: "bf16", FLOAT16: "fp16"}
"""What the matrix unit computes with, by the names that a spec uses."""

BY_SHORT_NAME = {short: dtype for dtype, short in SHORT_NAMES.items()}

ROUNDED_TYPES = (FLOAT32, FLOAT64)
"""Accepted with ``compute_dtype``, which says what they are rounded to."""

LENGTHS = (np.dtype(np.int32), np.dtype(np.int64))


def check_dtypes(q: Any, k: Any, v: Any, compute_dtype: Any, *, oracle: bool) -> np.dtype:
    """Check the input dtypes and return the dtype that the products are computed in.

    The oracle takes float32 and float64 as they are, and then computes in them.
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.dtype not in SHORT_NAMES and array.dtype not in ROUNDED_TYPES:
            raise TypeError(
                f"{name}.dtype={array.dtype} must be bfloat16 or float16, or float32 or float64 "
                f"with compute_dtype{void_hint(name, array.dtype)}"
            )
    for name, array in (("k", k), ("v", v)):
        if array.dtype != q.dtype:
            raise TypeError(f"{name}.dtype={array.dtype} must equal q.dtype={q.dtype}")
    chosen = _compute_dtype(compute_dtype)
    if q.dtype in ROUNDED_TYPES:
        if chosen is None and not oracle:
            raise TypeError(
                f"q.dtype={q.dtype} needs compute_dtype='bfloat16' or 'float16': the matrix unit "
                f"has no {q.dtype} product, and the inputs are not rounded unasked"
            )
        return chosen if chosen is not None else q.dtype
    if chosen is not None and chosen != q.dtype:
        raise ValueError(f"compute_dtype={chosen} must be None or q.dtype={q.dtype}")
    return q.dtype


def void_hint(name: str, dtype: np.dtype) -> str:
    """Return what to add to a sentence about bfloat16 that came back without its name."""
    if dtype.kind != "V":
        return ""
    if dtype.itemsize == BFLOAT16.itemsize and dtype.names is None:
        return (
            "; files and array interfaces have no name for bfloat16, "
            f"{name}.view(ml_dtypes.bfloat16) brings it back"
        )
    if dtype.itemsize == 0:
        # CuPy makes this of an array interface that offers two nameless bytes.
        return (
            "; if it was bfloat16, array interfaces have no name for that: hand over "
            ".view(numpy.uint16), and take .view(ml_dtypes.bfloat16) of what arrives"
        )
    return ""


def _compute_dtype(value: Any) -> np.dtype | None:
    """Turn the ``compute_dtype`` argument into a dtype; None stays None."""
    if value is None:
        return None
    message = (
        f"compute_dtype={value!r} must be 'bfloat16', 'float16' or None, the types the matrix "
        "unit multiplies"
    )
    # np.dtype(None) and np.dtype(float) are float64, and 'bf16' is not a NumPy name: only the
    # two full names and the dtypes themselves are taken.
    if isinstance(value, str):
        named = {"bfloat16": BFLOAT16, "float16": FLOAT16}.get(value)
        if named is None:
            raise ValueError(message)
        return named
    try:
        dtype = np.dtype(value)
    except TypeError:
        raise TypeError(message) from None
    if dtype not in SHORT_NAMES:
        raise ValueError(message)
    return dtype


def rounded(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return a NumPy array in another dtype, rounded once, to nearest even.

    ml_dtypes takes float64 to bfloat16 by way of float32, which rounds twice.
    """
    if array.dtype == FLOAT64 and dtype == BFLOAT16:
        array = _odd_float32(array)
    return array.astype(dtype, copy=False)


def finite_mean(mean: np.ndarray, of_finite: np.ndarray) -> np.ndarray:
    """Return weighted means, those that float64 rounded past its end back at it.

    Parameters
    ----------
    mean : numpy.ndarray
        float64.
    of_finite : numpy.ndarray
        Whether all that went into a mean is finite, so that the mean is.
    """
    largest = np.copysign(np.finfo(np.float64).max, mean)
    return np.where(np.isinf(mean) & of_finite, largest, mean)


def _odd_float32(exact: np.ndarray) -> np.ndarray:
    """Return float64 numbers in float32, cut off, their last bit odd where that lost something.

    A later rounding to fewer bits then goes where the exact number would have gone (S. Boldo and
    G. Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Trans. Computers 57, 2008).
    """
    nearest = exact.astype(np.float32)
    bits = nearest.view(np.uint32)
    cut = bits - (np.abs(nearest) > np.abs(exact)).astype(np.uint32)
    odd = cut | (nearest != exact).astype(np.uint32)
    return np.where(np.isnan(nearest), bits, odd).astype(np.uint32).view(np.float32)

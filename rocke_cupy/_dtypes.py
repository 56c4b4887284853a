"""The one table of element types: NumPy dtype, short name of the spec, name in messages."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT16 = np.dtype(np.float16)

SHORT_NAMES = {BFLOAT16: "bf16", FLOAT16: "fp16"}
"""What the matrix unit computes with, by the names that a spec uses."""

BY_SHORT_NAME = {short: dtype for dtype, short in SHORT_NAMES.items()}

WIDE = (np.dtype(np.float32), np.dtype(np.float64))
"""Accepted with ``compute_dtype``, which says what they are rounded to."""

LENGTHS = (np.dtype(np.int32), np.dtype(np.int64))


def compute_dtype_of(value: Any) -> np.dtype | None:
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

"""Rules on single values: whole numbers, real numbers, flags."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

import numpy as np

from .dtypes import BFLOAT16


def whole_number(value: Any, message: str) -> int:
    """Return an integer, Python's or NumPy's; bools and floats are a TypeError with `message`."""
    if isinstance(value, bool):
        raise TypeError(message)
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(message) from None


def check_flags(**flags: Any) -> None:
    """Raise TypeError unless each argument is True or False."""
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_):
            raise TypeError(f"{name}={flag!r} must be True or False")


def check_scale(given: Any, head_dim: int, name: str = "softmax_scale") -> float:
    """Return the scale of the scores."""
    if given is None:
        return 1 / math.sqrt(head_dim)
    if not _is_real(given):
        raise TypeError(
            f"{name}={given!r} must be a real number or None, not {type(given).__name__}"
        )
    try:
        scale = float(given)
    except OverflowError:
        scale = math.inf
    if not abs(scale) <= float(np.finfo(np.float32).max):
        raise ValueError(f"{name}={given} must be finite in float32")
    return scale


def _is_real(value: Any) -> bool:
    """Return whether `value` is a real number: Python's, NumPy's, or an array without axes."""
    if isinstance(value, bool):
        return False
    if isinstance(value, numbers.Real):
        return True
    dtype = getattr(value, "dtype", None)
    if getattr(value, "shape", None) != () or not isinstance(dtype, np.dtype):
        return False
    return dtype.kind in "iuf" or dtype == BFLOAT16

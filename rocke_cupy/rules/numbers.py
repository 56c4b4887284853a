"""Rules on single values: whole numbers, real numbers, flags."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

import numpy as np

from .arrays import is_array
from .dtypes import BFLOAT16

_MOST_SHOWN = 500
"""Characters of a value that a sentence shows."""


def whole_number(value: Any, message: str) -> int:
    """Return an integer, Python's or NumPy's; all else is a TypeError with `message`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer | np.ndarray):
        raise TypeError(message)
    try:
        return operator.index(value)
    # NumPy counts spans of time among its integers.
    except TypeError:
        raise TypeError(message) from None


def shown(value: Any) -> str:
    """Return a value as it stands in a sentence; Python refuses to print numbers past a length."""
    try:
        text = repr(value)
    except ValueError:
        return "(a number too long to print)"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise ValueError unless an argument is one of some words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={shown(value)} must be one of {', '.join(map(repr, choices))}")


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
            f"{name}={shown(given)} must be a real number or None, not {type(given).__name__}"
        )
    try:
        scale = float(given)
    except OverflowError:
        scale = math.inf
    if not abs(scale) <= float(np.finfo(np.float32).max):
        raise ValueError(f"{name}={shown(given)} must be finite in float32")
    return scale


def _is_real(value: Any) -> bool:
    """Return whether `value` is a real number: Python's, NumPy's, or an array without axes."""
    if isinstance(value, np.generic) or is_array(value):
        return value.shape == () and (value.dtype.kind in "iuf" or value.dtype == BFLOAT16)
    return isinstance(value, numbers.Real) and not isinstance(value, bool)

"""Rules on which keys a query sees: `causal`, `window_size` and `causal_alignment`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .numbers import check_choice, check_flags, shown, whole_number

UNLIMITED = 2**30
"""A window width that reaches past every key: lengths are below it."""

MAX_OFFSET = 2**29
"""Far enough for any length, and no sum with a token and a length leaves 32 bits."""

ALIGNMENTS = ("bottom_right", "top_left")


@dataclass(frozen=True)
class Masks:
    """Which keys a query sees, in whole numbers: ``left`` and ``right`` around the diagonal.

    The diagonal is that of the alignment. An offset is in the two widths, which may be negative.
    """

    left: int
    right: int
    top_left: bool


def check_masks(
    causal: Any, window_size: Any, causal_alignment: Any, diagonal_offset: Any
) -> Masks:
    """Return the window that ``causal``, ``window_size`` and ``diagonal_offset`` make together."""
    check_flags(causal=causal)
    check_choice("causal_alignment", causal_alignment, ALIGNMENTS)
    left, right = _window_widths(window_size)
    right = 0 if causal else right
    offset = _offset(diagonal_offset)
    return Masks(
        left if left == UNLIMITED else min(left - offset, UNLIMITED),
        right if right == UNLIMITED else min(right + offset, UNLIMITED),
        causal_alignment == "top_left",
    )


def _offset(given: Any) -> int:
    message = (
        f"diagonal_offset={shown(given)} must be a whole number from -2**29 to 2**29 = {MAX_OFFSET}"
    )
    offset = whole_number(given, message)
    if abs(offset) > MAX_OFFSET:
        raise ValueError(message)
    return offset


def _window_widths(window_size: Any) -> list[int]:
    message = (
        f"window_size={shown(window_size)} must be a pair (left, right) of whole numbers, each -1 "
        "or None for no limit"
    )
    if not isinstance(window_size, tuple | list):
        raise TypeError(message)
    if len(window_size) != 2:
        raise ValueError(message)
    widths = []
    for given in window_size:
        width = -1 if given is None else whole_number(given, message)
        if width < -1:
            raise ValueError(message)
        widths.append(UNLIMITED if width == -1 else min(width, UNLIMITED))
    return widths

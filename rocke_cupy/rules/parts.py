"""Rules on results over parts of the keys, which `merge_states` joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import check_devices, check_library
from .dtypes import ROUNDED_TYPES, SHORT_NAMES, void_hint
from .numbers import whole_number
from .shapes import DENSE_AXES, VARLEN_AXES, Axes, check_head_dim, check_layout

MAX_PARTS = 32
"""Results that one launch merges, and so the most parts that a call may cut its keys into."""


@dataclass(frozen=True)
class Parts:
    """Results over parts of the keys that can be merged.

    Attributes
    ----------
    outs, lses : list of arrays
        NumPy's or CuPy's, all of one library.
    lse_axes : tuple of int
        Which axis of an LSE belongs to each outer axis of an out.
    on_gpu : bool
    """

    outs: list[Any]
    lses: list[Any]
    lse_axes: tuple[int, ...]
    on_gpu: bool


def check_num_splits(given: Any) -> int | None:
    """Return how many parts the keys shall be cut into, None for as many as suit."""
    if given is None:
        return None
    message = f"num_splits={given!r} must be None or a whole number from 1 to {MAX_PARTS}"
    splits = whole_number(given, message)
    if not 1 <= splits <= MAX_PARTS:
        raise ValueError(message)
    return splits


def check_parts(outs: Sequence[Any], lses: Sequence[Any], layout: Any) -> Parts:
    """Check the arguments of `merge_states`."""
    outs, lses = (_as_list(name, arrays) for name, arrays in (("outs", outs), ("lses", lses)))
    if not outs or len(outs) != len(lses):
        raise ValueError(
            f"outs has {len(outs)} arrays and lses has {len(lses)}: there must be one of each for "
            "each set of keys, at least one"
        )
    check_layout(layout)
    named = {f"outs[{i}]": a for i, a in enumerate(outs)}
    named_lses = {f"lses[{i}]": a for i, a in enumerate(lses)}
    on_gpu = check_library(**named, **named_lses)
    axes = _check_outs(named, layout)
    shape = outs[0].shape
    lse_shape = axes.lse_shape(shape)
    for name, lse in named_lses.items():
        if lse.dtype != np.float32:
            raise TypeError(f"{name}.dtype={lse.dtype} must be float32")
        if lse.shape != lse_shape:
            raise ValueError(
                f"{name}.shape={lse.shape} must be {lse_shape} for outs[0].shape={shape} with "
                f"layout={layout!r}"
            )
    if on_gpu:
        check_devices(**named, **named_lses)
    # An LSE has the axes of its out but for the columns, the head before the token.
    order = [axis for axis in (axes.batch, axes.head, axes.token) if axis >= 0]
    return Parts(outs, lses, tuple(order.index(axis) for axis in range(len(order))), on_gpu)


def _as_list(name: str, arrays: Any) -> list[Any]:
    try:
        return list(arrays)
    except TypeError:
        raise TypeError(
            f"{name} must be a sequence of arrays, not {type(arrays).__name__}"
        ) from None


def _check_outs(outs: dict[str, Any], layout: str) -> Axes:
    first = outs["outs[0]"]
    if first.ndim not in (3, 4) or (first.ndim == 3 and layout != "bshd"):
        raise ValueError(
            f"outs[0].shape={first.shape} with layout={layout!r} must be what attention returns, "
            "with 4 dimensions, or attention_varlen, with 3 and the default layout"
        )
    check_head_dim(first.shape[-1], f"outs[0].shape={first.shape} has head dim {first.shape[-1]}")
    for name, out in outs.items():
        if out.dtype not in SHORT_NAMES and out.dtype not in ROUNDED_TYPES:
            raise TypeError(
                f"{name}.dtype={out.dtype} must be one that attention returns"
                f"{void_hint(name, out.dtype)}"
            )
        if out.dtype != first.dtype:
            raise TypeError(f"{name}.dtype={out.dtype} must equal outs[0].dtype={first.dtype}")
        if out.shape != first.shape:
            raise ValueError(f"{name}.shape={out.shape} must equal outs[0].shape={first.shape}")
    return DENSE_AXES[layout] if first.ndim == 4 else VARLEN_AXES

"""What a call must satisfy, stated once for the GPU path and for the reference.

Everything here looks at shapes, strides and dtypes only; arrays of lengths are checked in
`rocke_cupy._lengths`.
"""

from __future__ import annotations

import math
import numbers
import operator
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._dtypes import SHORT_NAMES, WIDE, compute_dtype_of

MAX_HEAD_DIM = 256
FLOAT32 = np.dtype(np.float32)
UNLIMITED = 2**30
"""A window width that reaches past every key: lengths are below it."""

LAYOUTS = ("bshd", "bhsd")
ALIGNMENTS = ("bottom_right", "top_left")


@dataclass(frozen=True)
class Masks:
    """Which keys a query sees, in whole numbers: ``left`` and ``right`` around the diagonal."""

    left: int
    right: int
    top_left: bool


@dataclass(frozen=True)
class Problem:
    """A checked call, without its arrays.

    Lengths are the arrays' for a batch, the longest ones for packed sequences.
    """

    batch: int
    seqlen_q: int
    seqlen_kv: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    dtype: np.dtype
    compute_dtype: np.dtype
    scale: float
    masks: Masks
    varlen: bool = False
    key_lengths: bool = False

    @property
    def empty(self) -> bool:
        """Whether the output has no element."""
        return 0 in (self.batch, self.seqlen_q, self.num_query_heads)


def is_cupy(array: Any) -> bool:
    """Return whether ``array`` is CuPy's, without importing CuPy."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def is_array(array: Any) -> bool:
    """Return whether ``array`` is one of NumPy's or CuPy's whose elements mean what they hold."""
    if isinstance(array, np.ma.MaskedArray | np.matrix):
        return False
    return isinstance(array, np.ndarray) or is_cupy(array)


def check_library(*optional: str, **arrays: Any) -> bool:
    """Return whether the arrays are CuPy's (all) rather than NumPy's (all).

    Those named as ``optional`` may be None.
    """
    first = ""
    on_gpu = False
    for name, array in arrays.items():
        if array is None and name in optional:
            continue
        if not is_array(array):
            raise TypeError(
                f"{name} must be a numpy.ndarray or a cupy.ndarray, not {type(array).__name__}"
            )
        gpu = is_cupy(array)
        if not first:
            first, on_gpu = name, gpu
        elif gpu != on_gpu:
            kinds = ("numpy", "cupy") if gpu else ("cupy", "numpy")
            raise TypeError(
                f"{first} is a {kinds[0]} array and {name} a {kinds[1]} array: all must be of one "
                "library, nothing is copied to or from the GPU on the way"
            )
    return on_gpu


def check_devices(**arrays: Any) -> None:
    """Raise ValueError unless all CuPy arrays are on one device; None is skipped."""
    devices = {name: array.device.id for name, array in arrays.items() if array is not None}
    first = next(iter(devices))
    for name, device in devices.items():
        if device != devices[first]:
            raise ValueError(
                f"{first} is on device {devices[first]} and {name} on device {device}: all must "
                "be on one"
            )


def check_layout(layout: Any) -> None:
    """Raise ValueError unless ``layout`` is a known one."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout={layout!r} must be one of {', '.join(map(repr, LAYOUTS))}")


def axes_of(layout: str) -> tuple[int, int, int, int]:
    """Return which axis of an array is the batch, the token, the head and the head dim."""
    return (0, 1, 2, 3) if layout == "bshd" else (0, 2, 1, 3)


def check_shapes(q: Any, k: Any, v: Any, layout: str | None) -> None:
    """Check what the three shapes must have in common; ``layout=None`` is packed sequences."""
    axes = {"bshd": "B, S, H, D", "bhsd": "B, H, S, D", None: "tokens, H, D"}[layout]
    ndim = 4 if layout else 3
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != ndim:
            where = f" with layout={layout!r}" if layout else ""
            raise ValueError(
                f"{name}.shape={array.shape} must have {ndim} dimensions ({axes}){where}"
            )
    token, head = (1, 2) if layout == "bshd" else (2, 1) if layout else (0, 1)
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"v.shape={v.shape} must equal k.shape={k.shape} in all dimensions but the last"
        )
    _check_head_dims(q, k, v)
    if layout and q.shape[0] != k.shape[0]:
        raise ValueError(
            f"k.shape={k.shape} has batch {k.shape[0]}, q.shape={q.shape} has {q.shape[0]}: they "
            "must be equal"
        )
    if not _heads_fit(q.shape[head], k.shape[head]):
        raise ValueError(
            f"q has {q.shape[head]} heads and k has {k.shape[head]}: the number of query heads "
            f"must be a multiple of that of kv heads{_layout_hint(q.shape, k.shape, layout)}"
        )
    for name, array in (("q", q), ("k", k)):
        if array.shape[token] >= UNLIMITED:
            raise ValueError(
                f"{name}.shape={array.shape} has {array.shape[token]} tokens, the limit is 2**30-1"
            )


def _check_head_dims(q: Any, k: Any, v: Any) -> None:
    head_dim = q.shape[-1]
    if k.shape[-1] != head_dim:
        raise ValueError(
            f"k.shape={k.shape} has head dim {k.shape[-1]}, q.shape={q.shape} has {head_dim}: they "
            "must be equal"
        )
    if v.shape[-1] != head_dim:
        raise NotImplementedError(
            f"v.shape={v.shape} has head dim {v.shape[-1]}, q's is {head_dim}: a head dim of v "
            "that differs is not supported"
        )
    if head_dim == 0:
        raise ValueError(f"q.shape={q.shape} has head dim 0, it must be at least 1")
    if head_dim > MAX_HEAD_DIM:
        raise NotImplementedError(
            f"q.shape={q.shape} has head dim {head_dim}, the largest supported is {MAX_HEAD_DIM}"
        )


def _heads_fit(query_heads: int, kv_heads: int) -> bool:
    return query_heads % kv_heads == 0 if kv_heads else query_heads == 0


def _layout_hint(q: tuple[int, ...], k: tuple[int, ...], layout: str | None) -> str:
    """Return what to add to a sentence about heads if those of the other layout would fit."""
    if layout is None:
        return ""
    other = LAYOUTS[1 - LAYOUTS.index(layout)]
    head = axes_of(other)[2]
    if not _heads_fit(q[head], k[head]):
        return ""
    return f"; with layout={other!r} in place of {layout!r} they are {q[head]} and {k[head]}"


def check_dtypes(q: Any, k: Any, v: Any, compute_dtype: Any, *, oracle: bool) -> np.dtype:
    """Check the input dtypes and return the dtype that the products are computed in.

    The oracle takes float32 and float64 as they are, and then computes in them.
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.dtype not in SHORT_NAMES and array.dtype not in WIDE:
            raise TypeError(
                f"{name}.dtype={array.dtype} must be bfloat16 or float16, or float32 or float64 "
                "with compute_dtype"
            )
    for name, array in (("k", k), ("v", v)):
        if array.dtype != q.dtype:
            raise TypeError(f"{name}.dtype={array.dtype} must equal q.dtype={q.dtype}")
    chosen = compute_dtype_of(compute_dtype)
    if q.dtype in WIDE:
        if chosen is None and not oracle:
            raise TypeError(
                f"q.dtype={q.dtype} needs compute_dtype='bfloat16' or 'float16': the matrix unit "
                f"has no {q.dtype} product, and the inputs are not rounded unasked"
            )
        return chosen if chosen is not None else q.dtype
    if chosen is not None and chosen != q.dtype:
        raise ValueError(f"compute_dtype={chosen} must be None or q.dtype={q.dtype}")
    return q.dtype


def check_flags(**flags: Any) -> None:
    """Raise TypeError unless each argument is True or False."""
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_):
            raise TypeError(f"{name}={flag!r} must be True or False")


def check_scale(given: Any, head_dim: int, name: str = "softmax_scale") -> float:
    """Return the scale of the scores."""
    if given is None:
        return 1 / math.sqrt(head_dim)
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
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


def check_masks(causal: Any, window_size: Any, causal_alignment: Any) -> Masks:
    """Return the window that ``causal`` and ``window_size`` make together."""
    check_flags(causal=causal)
    if causal_alignment not in ALIGNMENTS:
        raise ValueError(
            f"causal_alignment={causal_alignment!r} must be one of "
            f"{', '.join(map(repr, ALIGNMENTS))}"
        )
    left, right = _window_widths(window_size)
    return Masks(left, 0 if causal else right, causal_alignment == "top_left")


def _window_widths(window_size: Any) -> list[int]:
    message = (
        f"window_size={window_size!r} must be a pair (left, right) of whole numbers, each -1 or "
        "None for no limit"
    )
    if not isinstance(window_size, tuple | list):
        raise TypeError(message)
    if len(window_size) != 2:
        raise ValueError(message)
    widths = []
    for width in window_size:
        if width is None:
            width = -1
        if isinstance(width, bool):
            raise TypeError(message)
        try:
            width = operator.index(width)
        except TypeError:
            raise TypeError(message) from None
        if width < -1:
            raise ValueError(message)
        widths.append(UNLIMITED if width == -1 else min(width, UNLIMITED))
    return widths


def check_out(out: Any, q: Any) -> None:
    """Check the array that the result goes into, except for where it lies in memory."""
    if out.shape != q.shape:
        turned = out.ndim == q.ndim == 4 and out.shape == tuple(q.shape[i] for i in (0, 2, 1, 3))
        hint = ": its axes are in the order of the other layout" if turned else ""
        raise ValueError(f"out.shape={out.shape} must equal q.shape={q.shape}{hint}")
    if out.dtype != q.dtype:
        raise TypeError(f"out.dtype={out.dtype} must equal q.dtype={q.dtype}")
    check_out_memory(out)


def check_out_memory(out: Any) -> None:
    """Check that each element of ``out`` can be written, and lies somewhere of its own."""
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out must be writeable, it is a read-only array")
    if _repeats(out):
        raise ValueError(
            f"out.strides={out.strides} with out.shape={out.shape} place several elements at one "
            "address, as a broadcast array does: each needs its own"
        )


def _repeats(array: Any) -> bool:
    """Return whether two elements may share memory: some axis does not step over the smaller."""
    reach = array.dtype.itemsize
    axes = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    for stride, length in sorted(axes):
        if stride < reach:
            return 0 not in array.shape
        reach += stride * (length - 1)
    return False


def check_overlap(out: Any, **inputs: Any) -> None:
    """Raise ValueError if an element of ``out`` lies in an input."""
    for name, array in inputs.items():
        if array is not None and _share_memory(out, array):
            raise ValueError(
                f"out overlaps {name}: {name} is still read while out is written, so out needs "
                "memory of its own"
            )


class _AtAddress:
    """Stands for a device array in NumPy's exact overlap test, which reads no element."""

    def __init__(self, array: Any, address: int) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}",
            "version": 3,
        }


def _share_memory(a: Any, b: Any) -> bool:
    if is_cupy(a):
        a, b = (np.asarray(_AtAddress(x, x.data.ptr)) for x in (a, b))
    if not np.may_share_memory(a, b):
        return False
    try:
        # NumPy's stub knows only two of the values that max_work may have.
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True

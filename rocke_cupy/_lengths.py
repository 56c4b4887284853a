"""Lengths that a call carries as arrays: key lengths, and boundaries of packed sequences.

Shapes and dtypes are always checked. The functions that look at values take host arrays: on the
GPU path those have been read from the device, once a call, unless ``check=False``.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ._checks import is_array
from ._dtypes import LENGTHS


def check_length_array(name: str, lengths: Any, count: int, counted: str) -> None:
    """Check shape and dtype of an array of lengths; its values are another matter."""
    if lengths.shape != (count,):
        raise ValueError(f"{name}.shape={lengths.shape} must be ({count},), {counted}")
    if lengths.dtype not in LENGTHS:
        raise TypeError(f"{name}.dtype={lengths.dtype} must be int32 or int64")


def length_array(name: str, lengths: Any) -> Any:
    """Return ``lengths`` as an array: a list or tuple becomes NumPy's, an array stays."""
    if is_array(lengths):
        return lengths
    if not isinstance(lengths, list | tuple):
        raise TypeError(
            f"{name} must be an array or a list of whole numbers, not {type(lengths).__name__}"
        )
    try:
        array = np.asarray(lengths) if lengths else np.zeros(0, np.int32)
    # Of unequal rows, or of device arrays, NumPy makes no array; its words do not say whose fault.
    except (TypeError, ValueError):
        array = None
    if array is None or array.dtype.kind != "i":
        raise TypeError(f"{name}={lengths!r} must hold whole numbers")
    return array


def check_kv_lens(kv_lens: np.ndarray, seqlen_kv: int) -> None:
    """Check the values of ``kv_lens``."""
    bad = np.flatnonzero((kv_lens < 0) | (kv_lens > seqlen_kv))
    if bad.size:
        at = int(bad[0])
        raise ValueError(
            f"kv_lens[{at}]={int(kv_lens[at])} must be from 0 to the {seqlen_kv} keys of k"
        )


def check_cu_seqlens(name: str, cu_seqlens: np.ndarray, tokens: int, of: str) -> None:
    """Check the values of a packed batch's boundaries."""
    if cu_seqlens[0] != 0:
        raise ValueError(f"{name}[0]={int(cu_seqlens[0])} must be 0")
    # Not by their differences, which may wrap around.
    falls = np.flatnonzero(cu_seqlens[1:] < cu_seqlens[:-1])
    if falls.size:
        at = int(falls[0]) + 1
        raise ValueError(
            f"{name}[{at}]={int(cu_seqlens[at])} must not be below "
            f"{name}[{at - 1}]={int(cu_seqlens[at - 1])}"
        )
    if cu_seqlens[-1] > tokens:
        raise ValueError(
            f"{name}[-1]={int(cu_seqlens[-1])} must be at most the {tokens} tokens of {of}"
        )


def check_max_seqlen(name: str, given: Any) -> int | None:
    """Check a given longest length by itself."""
    if given is None:
        return None
    message = f"{name}={given!r} must be a whole number or None"
    if isinstance(given, bool):
        raise TypeError(message)
    try:
        length = operator.index(given)
    except TypeError:
        raise TypeError(message) from None
    if length < 0:
        raise ValueError(f"{name}={length} must not be negative")
    return length


def check_longest(name: str, given: int, cu_seqlens: np.ndarray, cu_name: str) -> None:
    """Raise ValueError if a sequence is longer than the caller says."""
    longest = longest_sequence(cu_seqlens)
    if given < longest:
        raise ValueError(
            f"{name}={given} is too small: the longest sequence of {cu_name} has {longest} tokens"
        )


def longest_sequence(cu_seqlens: np.ndarray) -> int:
    """Return the longest length that the boundaries enclose."""
    return int(np.diff(cu_seqlens).max(initial=0))


def check_max_seqlens(max_seqlen_q: Any, max_seqlen_k: Any) -> tuple[int | None, int | None]:
    """Check the longest lengths that the caller gives, by themselves."""
    return (
        check_max_seqlen("max_seqlen_q", max_seqlen_q),
        check_max_seqlen("max_seqlen_k", max_seqlen_k),
    )


def check_packing(cu_seqlens_q: Any, cu_seqlens_k: Any) -> None:
    """Check shapes and dtypes of the boundaries of a packed batch."""
    if cu_seqlens_q.ndim != 1 or not len(cu_seqlens_q):
        raise ValueError(
            f"cu_seqlens_q.shape={cu_seqlens_q.shape} must be (N + 1,) for N sequences"
        )
    for name, starts in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        check_length_array(name, starts, len(cu_seqlens_q), "one more than there are sequences")


def check_packed_values(
    cu_seqlens_q: np.ndarray,
    cu_seqlens_k: np.ndarray,
    tokens_q: int,
    tokens_k: int,
    longest: tuple[int | None, int | None],
) -> None:
    """Check the values of the boundaries, and the longest lengths against them."""
    check_cu_seqlens("cu_seqlens_q", cu_seqlens_q, tokens_q, "q")
    check_cu_seqlens("cu_seqlens_k", cu_seqlens_k, tokens_k, "k")
    for side, given, starts in zip("qk", longest, (cu_seqlens_q, cu_seqlens_k), strict=True):
        if given is not None:
            check_longest(f"max_seqlen_{side}", given, starts, f"cu_seqlens_{side}")

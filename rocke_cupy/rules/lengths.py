"""Rules on lengths that a call carries as arrays: key lengths, and boundaries of packed sequences.

Shapes and dtypes are always checked. Values are, unless ``check=False``; those of an array on the
GPU are read from it for that, once a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import check_devices, check_library, check_overlap, host_copy, is_array, is_cupy
from .dtypes import LENGTHS
from .numbers import shown, whole_number


@dataclass(frozen=True)
class Lengths:
    """The arrays of lengths of one call, checked.

    Attributes
    ----------
    given : mapping
        By name, NumPy or CuPy arrays of int32 or int64.
    entries : int
        Batch entries, or packed sequences.
    on_host : mapping
        Those whose values were read, as NumPy arrays.
    longest_q : int, optional
        The longest packed sequence of queries, by the caller's word.
    """

    given: Mapping[str, Any]
    entries: int
    on_host: Mapping[str, np.ndarray]
    longest_q: int | None = None


def check_key_lengths(
    kv_lens: Any, *, q: Any, out: Any, batch: int, seqlen_kv: int, check: Any
) -> Lengths:
    """Check how many keys each batch entry has, if the caller says so."""
    if kv_lens is None:
        return Lengths({}, batch, {})
    given = {"kv_lens": _length_array("kv_lens", kv_lens)}
    _check_length_array("kv_lens", given["kv_lens"], batch, "one length a batch entry")
    _check_memory(given, q, out)
    on_host = {}
    if check:
        on_host["kv_lens"] = host_copy(given["kv_lens"])
        _check_key_counts(on_host["kv_lens"], seqlen_kv)
    return Lengths(given, batch, on_host)


def check_boundaries(
    boundaries: Mapping[str, Any],
    longest: Mapping[str, Any],
    *,
    q: Any,
    out: Any,
    tokens: tuple[int, int],
    check: Any,
) -> Lengths:
    """Check the boundaries of packed sequences, and the longest lengths against them.

    With ``check=False`` only what a launch needs is read: where the queries start, if the caller
    did not say how long the longest sequence is.

    Parameters
    ----------
    boundaries : mapping
        By name, those of the queries, then those of the keys.
    longest : mapping
        The longest sequence of each or None, by the name of the argument that says so.
    q, out : array
    tokens : tuple of int
        Of the queries and of the keys.
    check : bool
    """
    given = {name: _length_array(name, starts) for name, starts in boundaries.items()}
    first, starts_q = next(iter(given.items()))
    if starts_q.ndim != 1 or not len(starts_q):
        raise ValueError(f"{first}.shape={starts_q.shape} must be (N + 1,) for N sequences")
    for name, starts in given.items():
        _check_length_array(name, starts, len(starts_q), "one more than there are sequences")
    said = {name: _max_seqlen(name, length) for name, length in longest.items()}
    longest_q = next(iter(said.values()))
    _check_memory(given, q, out)
    needed = list(given) if check else [first] if longest_q is None else []
    on_host = {name: host_copy(given[name]) for name in needed}
    if check:
        for of, name, limit in zip("qk", given, tokens, strict=True):
            _check_starts(name, on_host[name], limit, of)
        for what, name in zip(said, given, strict=True):
            _check_longest(what, said[what], name, on_host[name])
    return Lengths(given, len(starts_q) - 1, on_host, longest_q)


def longest_sequence(cu_seqlens: np.ndarray) -> int:
    """Return the longest length that the boundaries enclose."""
    return int(np.diff(cu_seqlens).max(initial=0))


def _check_length_array(name: str, lengths: Any, count: int, counted: str) -> None:
    if lengths.shape != (count,):
        raise ValueError(f"{name}.shape={lengths.shape} must be ({count},), {counted}")
    if lengths.dtype not in LENGTHS:
        raise TypeError(f"{name}.dtype={lengths.dtype} must be int32 or int64")


def _length_array(name: str, lengths: Any) -> Any:
    """Return ``lengths`` as an array: a list or tuple becomes NumPy's, an array stays."""
    if is_array(lengths):
        return lengths
    if not isinstance(lengths, list | tuple):
        raise TypeError(
            f"{name} must be an array or a list of whole numbers, not {type(lengths).__name__}"
        )
    # One by one: NumPy makes floats of a list that mixes its unsigned integers with others.
    numbers = [whole_number(n, f"{name}={shown(lengths)} must hold whole numbers") for n in lengths]
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        raise ValueError(f"{name}={shown(lengths)} must hold numbers below 2**63") from None


def _check_memory(given: Mapping[str, Any], q: Any, out: Any) -> None:
    """Check where lengths are: with NumPy arrays not on a GPU, else on that GPU or on the host.

    They are read while `out` is written.
    """
    if isinstance(q, np.ndarray):
        check_library(q=q, **given)
    else:
        check_devices(q=q, **{name: a for name, a in given.items() if is_cupy(a)})
    check_overlap(out, **{name: a for name, a in given.items() if is_cupy(a) == is_cupy(q)})


def _check_key_counts(kv_lens: np.ndarray, seqlen_kv: int) -> None:
    bad = np.flatnonzero((kv_lens < 0) | (kv_lens > seqlen_kv))
    if bad.size:
        at = int(bad[0])
        raise ValueError(
            f"kv_lens[{at}]={int(kv_lens[at])} must be from 0 to the {seqlen_kv} keys of k"
        )


def _max_seqlen(name: str, given: Any) -> int | None:
    if given is None:
        return None
    length = whole_number(given, f"{name}={shown(given)} must be a whole number or None")
    if length < 0:
        raise ValueError(f"{name}={length} must not be negative")
    return length


def _check_starts(name: str, starts: np.ndarray, tokens: int, of: str) -> None:
    if starts[0] != 0:
        raise ValueError(f"{name}[0]={int(starts[0])} must be 0")
    # Not by their differences, which may wrap around.
    falls = np.flatnonzero(starts[1:] < starts[:-1])
    if falls.size:
        at = int(falls[0]) + 1
        raise ValueError(
            f"{name}[{at}]={int(starts[at])} must not be below "
            f"{name}[{at - 1}]={int(starts[at - 1])}"
        )
    if starts[-1] > tokens:
        raise ValueError(
            f"{name}[-1]={int(starts[-1])} must be at most the {tokens} tokens of {of}"
        )


def _check_longest(what: str, said: int | None, name: str, starts: np.ndarray) -> None:
    longest = longest_sequence(starts)
    if said is not None and said < longest:
        raise ValueError(
            f"{what}={said} is too small: the longest sequence of {name} has {longest} tokens"
        )

"""What all ranks of a call must agree on, and errors that reach all of them.

A rank that raised alone would leave the others waiting for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .waiting import gather

Told = tuple[type[Exception], str] | None
"""A rank's error as the others hear of it."""


def tell(error: Exception | None) -> Told:
    """Return an error in the form in which it travels."""
    return None if error is None else (_public(error), str(error))


def _public(error: Exception) -> type[Exception]:
    """Return a class that can be raised from a sentence alone on every rank."""
    for kind in (NotImplementedError, TypeError, ValueError, MemoryError):
        if isinstance(error, kind):
            return kind
    return RuntimeError


def raise_on_all(comm: Any, error: Exception | None) -> None:
    """Raise on all ranks if one of them has an error: that of the first, with its rank."""
    _raise_first(gather(comm, tell(error)), error)


def _raise_first(told: Sequence[Told], error: Exception | None) -> None:
    for rank, heard in enumerate(told):
        if heard is not None:
            kind, sentence = heard
            raise kind(f"rank {rank}: {sentence}") from error


def agree(
    comm: Any, error: Exception | None, fields: Mapping[str, Any]
) -> Sequence[Mapping[str, Any]]:
    """Raise on all ranks if one has an error; else return what each rank has.

    Raises
    ------
    ValueError
        If a field differs between ranks. Fields whose names begin with "own " may differ.
    """
    told, ranks = zip(*gather(comm, (tell(error), dict(fields))), strict=True)
    _raise_first(told, error)
    for name, value in ranks[0].items():
        for rank, other in enumerate(ranks):
            if not name.startswith("own ") and other[name] != value:
                raise ValueError(
                    f"{name} is {value} on rank 0 and {other[name]} on rank {rank}: "
                    "it must be the same on all ranks"
                )
    return ranks

"""Rules on the shapes of q, k and v, and which of their axes is which."""

from __future__ import annotations

from typing import Any, NamedTuple

from .masks import UNLIMITED
from .numbers import check_choice

MAX_HEAD_DIM = 256


class Axes(NamedTuple):
    """Which axes of an array are the batch, the token and the head; -1: there is none.

    The last axis is the head dim.
    """

    batch: int
    token: int
    head: int

    def lse_shape(self, out_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the LSE that goes with a result."""
        per_head = (out_shape[self.head], out_shape[self.token])
        return per_head if self.batch < 0 else (out_shape[self.batch], *per_head)


DENSE_AXES = {"bshd": Axes(0, 1, 2), "bhsd": Axes(0, 2, 1)}
VARLEN_AXES = Axes(-1, 0, 1)


def check_layout(layout: Any) -> None:
    """Raise ValueError unless ``layout`` is a known one."""
    check_choice("layout", layout, tuple(DENSE_AXES))


def check_shapes(q: Any, k: Any, v: Any, layout: str | None) -> Axes:
    """Check what the three shapes must have in common; ``layout=None`` is packed sequences."""
    names = {"bshd": "B, S, H, D", "bhsd": "B, H, S, D", None: "tokens, H, D"}[layout]
    ndim = 4 if layout else 3
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != ndim:
            where = f" with layout={layout!r}" if layout else ""
            raise ValueError(
                f"{name}.shape={array.shape} must have {ndim} dimensions ({names}){where}"
            )
    axes = DENSE_AXES[layout] if layout else VARLEN_AXES
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"v.shape={v.shape} must equal k.shape={k.shape} in all dimensions but the last"
        )
    _check_head_dims(q, k, v)
    if layout and q.shape[axes.batch] != k.shape[axes.batch]:
        raise ValueError(
            f"k.shape={k.shape} has batch {k.shape[0]}, q.shape={q.shape} has {q.shape[0]}: they "
            "must be equal"
        )
    if not _heads_fit(q.shape[axes.head], k.shape[axes.head]):
        raise ValueError(
            f"q has {q.shape[axes.head]} heads and k has {k.shape[axes.head]}: the number of query "
            "heads must be a multiple of that of kv heads"
            f"{_layout_hint(q.shape, k.shape, layout)}"
        )
    for name, array in (("q", q), ("k", k)):
        tokens = array.shape[axes.token]
        if tokens >= UNLIMITED:
            raise ValueError(
                f"{name}.shape={array.shape} has {tokens} tokens, the limit is 2**30-1"
            )
    return axes


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
    check_head_dim(head_dim, f"q.shape={q.shape} has head dim {head_dim}")


def check_head_dim(head_dim: int, found: str) -> None:
    """Check a head dim by itself; `found` opens the sentence of an error."""
    if head_dim == 0:
        raise ValueError(f"{found}, it must be at least 1")
    if head_dim > MAX_HEAD_DIM:
        raise NotImplementedError(f"{found}, the largest supported is {MAX_HEAD_DIM}")


def _heads_fit(query_heads: int, kv_heads: int) -> bool:
    return query_heads % kv_heads == 0 if kv_heads else query_heads == 0


def _layout_hint(q: tuple[int, ...], k: tuple[int, ...], layout: str | None) -> str:
    """Return what to add to a sentence about heads if those of the other layout would fit."""
    if layout is None:
        return ""
    (other,) = set(DENSE_AXES) - {layout}
    head = DENSE_AXES[other].head
    if not _heads_fit(q[head], k[head]):
        return ""
    return f"; with layout={other!r} in place of {layout!r} they are {q[head]} and {k[head]}"

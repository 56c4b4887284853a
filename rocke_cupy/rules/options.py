"""The optional arguments of a call that are no arrays, as one description."""

from __future__ import annotations

from typing import Any, NamedTuple, SupportsFloat, TypedDict

Window = tuple[int | None, int | None]
"""`window_size`: keys to the left and to the right of the diagonal, -1 or None for all."""


class Options(NamedTuple):
    """What a caller asks for beside the arrays, unchecked, with the contract's defaults.

    The public functions pass their arguments on as a tuple of these fields, in this order: it is
    what the rules check, and what the GPU keeps a repeated call's plan under. So an argument that
    is a field here can be overlooked by neither.
    """

    softmax_scale: Any = None
    causal: Any = False
    window_size: Any = (-1, -1)
    causal_alignment: Any = "bottom_right"
    diagonal_offset: Any = 0
    compute_dtype: Any = None
    return_lse: Any = False
    check: Any = True
    num_splits: Any = None
    layout: Any = "bshd"
    """None for packed sequences."""
    max_seqlen_q: Any = None
    """This and `max_seqlen_k` belong to packed sequences only."""
    max_seqlen_k: Any = None


class _Common(TypedDict, total=False):
    """Types of arguments that may be left out, for overloads, which `return_lse` tells apart."""

    softmax_scale: SupportsFloat | None
    causal: bool
    window_size: Window
    causal_alignment: str
    diagonal_offset: int
    compute_dtype: Any
    out: Any
    check: bool
    num_splits: int | None


class Dense(_Common, total=False):
    """Arguments of `attention` that may be left out."""

    kv_lens: Any
    layout: str


class Varlen(_Common, total=False):
    """Arguments of `attention_varlen` that may be left out."""

    max_seqlen_q: int | None
    max_seqlen_k: int | None

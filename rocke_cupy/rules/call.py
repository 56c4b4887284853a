"""A whole call: its rules, in the one order in which they are applied to every kind of array."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .arrays import check_devices, check_library, check_out, check_overlap
from .dtypes import check_dtypes
from .lengths import Lengths, check_boundaries, check_key_lengths
from .masks import Masks, check_masks
from .numbers import check_flags, check_scale
from .options import Options
from .parts import check_num_splits
from .shapes import Axes, check_layout, check_shapes


@dataclass(frozen=True)
class Problem:
    """A checked call, without its arrays.

    Lengths are the arrays'. Of packed sequences these are their tokens, in a batch of one, until a
    plan puts the longest lengths and the number of sequences in their place.
    """

    batch: int
    seqlen_q: int
    seqlen_kv: int
    num_query_heads: int
    num_kv_heads: int
    head_dim: int
    out_dtype: np.dtype
    compute_dtype: np.dtype
    scale: float
    masks: Masks
    varlen: bool = False
    key_lengths: bool = False
    num_splits: int | None = None

    @property
    def empty(self) -> bool:
        """Whether the output has no element."""
        return 0 in (self.batch, self.seqlen_q, self.num_query_heads)


@dataclass(frozen=True)
class Call:
    """A call that satisfies the contract.

    Attributes
    ----------
    q, k, v, out : array
        NumPy's or CuPy's, all of one library; `out` is None for a fresh result.
    lengths : Lengths
    problem : Problem
    axes : Axes
    return_lse : bool
    on_gpu : bool
    """

    q: Any
    k: Any
    v: Any
    out: Any
    lengths: Lengths
    problem: Problem
    axes: Axes
    return_lse: bool
    on_gpu: bool


def check_dense(
    q: Any, k: Any, v: Any, out: Any, kv_lens: Any, options: Options, *, oracle: bool = False
) -> Call:
    """Check a call of `attention`, or of the oracle, and return it."""
    on_gpu = check_library("out", q=q, k=k, v=v, out=out)
    check_layout(options.layout)
    problem, axes = _check_arrays(q, k, v, out, options, options.layout, on_gpu, oracle)
    problem = replace(problem, key_lengths=kv_lens is not None)
    lengths = dense_lengths(problem, q, out, kv_lens, options)
    check_overlap(out, q=q, k=k, v=v)
    return Call(q, k, v, out, lengths, problem, axes, bool(options.return_lse), on_gpu)


def check_varlen(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    options: Options,
    *,
    oracle: bool = False,
) -> Call:
    """Check a call of `attention_varlen`, or of the oracle, and return it."""
    on_gpu = check_library("out", q=q, k=k, v=v, out=out)
    problem, axes = _check_arrays(q, k, v, out, options, None, on_gpu, oracle)
    lengths = varlen_lengths(problem, q, out, cu_seqlens_q, cu_seqlens_k, options)
    check_overlap(out, q=q, k=k, v=v)
    return Call(q, k, v, out, lengths, problem, axes, bool(options.return_lse), on_gpu)


def _check_arrays(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    options: Options,
    layout: str | None,
    on_gpu: bool,
    oracle: bool,
) -> tuple[Problem, Axes]:
    """Check all that does not change when a call is repeated with other addresses and lengths."""
    axes = check_shapes(q, k, v, layout)
    compute_dtype = check_dtypes(q, k, v, options.compute_dtype, oracle=oracle)
    scale = check_scale(options.softmax_scale, q.shape[-1])
    masks = check_masks(
        options.causal, options.window_size, options.causal_alignment, options.diagonal_offset
    )
    check_flags(return_lse=options.return_lse, check=options.check)
    num_splits = check_num_splits(options.num_splits)
    if out is not None:
        check_out(out, q)
    if on_gpu:
        check_devices(q=q, k=k, v=v, out=out)
    problem = Problem(
        batch=q.shape[axes.batch] if layout else 1,
        seqlen_q=q.shape[axes.token],
        seqlen_kv=k.shape[axes.token],
        num_query_heads=q.shape[axes.head],
        num_kv_heads=k.shape[axes.head],
        head_dim=q.shape[-1],
        out_dtype=q.dtype if out is None else out.dtype,
        compute_dtype=compute_dtype,
        scale=scale,
        masks=masks,
        varlen=layout is None,
        num_splits=num_splits,
    )
    return problem, axes


def dense_lengths(problem: Problem, q: Any, out: Any, kv_lens: Any, options: Options) -> Lengths:
    """Check the lengths of a call of `attention`, all of whose other arguments are right."""
    return check_key_lengths(
        kv_lens, q=q, out=out, batch=problem.batch, seqlen_kv=problem.seqlen_kv,
        check=options.check,
    )  # fmt: skip


def varlen_lengths(
    problem: Problem, q: Any, out: Any, cu_seqlens_q: Any, cu_seqlens_k: Any, options: Options
) -> Lengths:
    """Check the lengths of a call of `attention_varlen`, all of whose other arguments are right."""
    return check_boundaries(
        {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k},
        {"max_seqlen_q": options.max_seqlen_q, "max_seqlen_k": options.max_seqlen_k},
        q=q, out=out, tokens=(problem.seqlen_q, problem.seqlen_kv), check=options.check,
    )  # fmt: skip

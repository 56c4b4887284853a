"""Attention whose keys travel: each rank holds a share of the tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, SupportsFloat

import numpy as np

from ..attention import attention
from ..merge import merge_states
from ..rules.call import Call, check_dense
from ..rules.masks import MAX_OFFSET, check_masks
from ..rules.numbers import check_choice
from ..rules.options import Options, Window
from . import ring
from . import staging as ways
from .agreement import agree, raise_on_all
from .shares import ORDERS, pieces
from .waiting import duplicate

_INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended."""


def ring_attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    comm: Any,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    causal_alignment: str = "bottom_right",
    diagonal_offset: int = 0,
    order: str = "contiguous",
    layout: str = "bshd",
    compute_dtype: Any = None,
    return_lse: bool = False,
    num_splits: int | None = None,
    staging: str | None = None,
) -> Any:
    """Attention over a sequence whose tokens are spread over the ranks of a communicator.

    Each rank gives its share of the queries, keys and values, and gets its share of the result. The
    shares of the keys travel round the ring of ranks, while each rank attends to what it holds. All
    ranks make the call together.

    Parameters
    ----------
    q : array, (B, sq, Hq, D)
        This rank's queries; (B, Hq, sq, D) with ``layout="bhsd"``. NumPy or CuPy, of the dtypes of
        `rocke_cupy.attention`. Shares may have different lengths, none included.
    k, v : array, (B, skv, Hkv, D)
        This rank's keys and values.
    comm : mpi4py.MPI.Intracomm
        The ranks.
    softmax_scale, causal, window_size, causal_alignment, diagonal_offset, compute_dtype
        As in `rocke_cupy.attention`; the diagonal is that of the whole sequence.
    order : {"contiguous", "zigzag"}
        Which tokens a rank holds. With "contiguous" the shares follow each other in the order of
        ranks. With "zigzag", which gives all ranks the same work if the mask is causal, the
        sequence is cut into two pieces for each of the R ranks. Rank r holds the pieces r and
        2 R - 1 - r, in this order; of a share with an odd length the first piece is the longer
        one. `shares` cuts a sequence so.
    layout : {"bshd", "bhsd"}
        Order of the axes of the arrays.
    return_lse : bool
        Also return the logarithm of the sum of the exponentials of the scores.
    num_splits : int, optional
        As in `rocke_cupy.attention`, for each share.
    staging : {None, "device", "host"}
        How shares in CuPy arrays travel: MPI reads and writes GPU memory, or they go by way of
        pinned memory of the host. By default the MPI is asked what it can, and rank 0 says so on
        standard error if it cannot. No effect on NumPy arrays.

    Returns
    -------
    out : array
        Shape and dtype of `q`. Rows that see no key are 0.
    lse : array
        Only with `return_lse`: float32, (B, Hq, sq).

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        On all ranks, even if only one has a wrong argument: the sentence names the rank.

    Notes
    -----
    Beside its own arrays a rank holds at most two shares of the keys, and sends and receives
    ``comm.size - 1`` of them. Results of shares are kept in float32 and merged as they come, so
    they are rounded once. Ctrl-C on any rank ends all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from mpi4py import MPI
    >>> from rocke_cupy.distributed import ring_attention, shares
    >>> comm = MPI.COMM_WORLD
    >>> q, k, v = np.random.default_rng(0).standard_normal((3, 1, 64, 2, 16)).astype(np.float16)
    >>> mine = shares(64, comm.size, "zigzag")[comm.rank]
    >>> own = [np.concatenate([x[:, piece] for piece in mine], axis=1) for x in (q, k, v)]
    >>> ring_attention(*own, comm=comm, causal=True, order="zigzag").shape[0]
    1
    """
    _check_comm(comm)
    options = Options(
        softmax_scale, causal, window_size, causal_alignment, diagonal_offset, compute_dtype,
        return_lse, True, num_splits, layout,
    )  # fmt: skip
    own = None
    try:
        own = duplicate(comm)
        return _attend(q, k, v, own, options, order, staging)
    except KeyboardInterrupt:
        print(f"rocke_cupy: interrupted on rank {comm.rank}", file=sys.stderr, flush=True)
        comm.Abort(_INTERRUPTED)  # the others would wait for this rank for ever
        raise
    finally:
        if own is not None:
            own.Free()


def _check_comm(comm: Any) -> None:
    try:
        from mpi4py.MPI import Intracomm
    except ImportError as error:
        raise ImportError(
            'ring_attention needs mpi4py and an MPI: pip install "rocke_cupy[distributed]"'
        ) from error
    if not isinstance(comm, Intracomm):
        raise TypeError(f"comm must be an mpi4py.MPI.Intracomm, not {type(comm).__name__}")


def _attend(q: Any, k: Any, v: Any, comm: Any, options: Options, order: Any, staging: Any) -> Any:
    """Carry out a call on a communicator of its own."""
    call, error = None, None
    try:
        check_choice("order", order, ORDERS)
        if staging is not None:
            check_choice("staging", staging, ways.STAGINGS)
        call = check_dense(q, k, v, None, None, options)
    except (ValueError, TypeError, NotImplementedError) as wrong:
        error = wrong
    ranks = agree(comm, error, {} if call is None else _description(call, options, order))
    assert call is not None
    rows = _Rows(call, options, order, comm.rank, [r["own lengths"] for r in ranks])
    held = _travelling(call, comm, staging, [r["own shapes"] for r in ranks])
    failure: Exception | None = None
    for step, (keys, values) in enumerate(held):
        if failure is None:
            try:
                rows.attend(keys, values, (comm.rank - step) % comm.size)
            except Exception as wrong:  # the others still need what comes after this
                failure = wrong
    raise_on_all(comm, failure)
    return rows.result()


def _description(call: Call, options: Options, order: str) -> dict[str, Any]:
    """Return what all ranks must have alike, in the caller's words, and what is a rank's own."""
    problem = call.problem
    alike = options._replace(softmax_scale=problem.scale, compute_dtype=problem.compute_dtype.name)
    return {
        "the library of the arrays": "cupy" if call.on_gpu else "numpy",
        "q.dtype": call.q.dtype.name,
        "the batch of q, k and v": problem.batch,
        "the number of query heads": problem.num_query_heads,
        "the number of kv heads": problem.num_kv_heads,
        "the head dim": problem.head_dim,
        "order": order,
        **{name: _plain(value) for name, value in alike._asdict().items()},
        "own lengths": (problem.seqlen_q, problem.seqlen_kv),
        "own shapes": (tuple(call.k.shape), tuple(call.v.shape)),
    }


def _plain(value: Any) -> Any:
    """Return an option's value in one form, whichever of NumPy's and Python's it has."""
    if isinstance(value, tuple | list):
        return tuple(-1 if end is None else int(end) for end in value)
    return value.item() if isinstance(value, np.generic) else value


def _travelling(call: Call, comm: Any, staging: str | None, shapes: list[Any]) -> Iterator[Any]:
    if not call.on_gpu:
        own = [np.ascontiguousarray(array) for array in (call.k, call.v)]
        return ring.shares_on_host(comm, own, shapes)
    import cupy

    own = [cupy.ascontiguousarray(array) for array in (call.k, call.v)]
    if comm.size == 1 or ways.choose(comm, staging) == "device":
        return ring.shares_on_device(comm, own, shapes)
    return ring.shares_by_host(comm, own, shapes)


class _Rows:
    """A rank's rows, and their result over the keys that have come so far.

    Parameters
    ----------
    call : Call
        The rank's own arrays.
    options : Options
    order : str
    rank : int
    lengths : list of (int, int)
        Of the shares of q and of k, by rank.
    """

    def __init__(
        self,
        call: Call,
        options: Options,
        order: str,
        rank: int,
        lengths: list[tuple[int, int]],
    ) -> None:
        lengths_q, lengths_k = zip(*lengths, strict=True)
        self._call, self._token_axis = call, call.axes.token
        self._pieces_q, self._pieces_k = pieces(lengths_q, order)[rank], pieces(lengths_k, order)
        alignment = options.causal_alignment
        top_left = alignment == "top_left"
        bottom_right = 0 if top_left else sum(lengths_k) - sum(lengths_q)
        self._diagonal = bottom_right + options.diagonal_offset
        # Around that diagonal, which has the offset.
        self._masks = check_masks(options.causal, options.window_size, alignment, 0)
        self._options = dict(
            softmax_scale=call.problem.scale, causal=options.causal,
            window_size=options.window_size, layout=options.layout,
            compute_dtype=options.compute_dtype, num_splits=options.num_splits,
        )  # fmt: skip
        self._parts: list[tuple[Any, Any] | None] = [None] * len(self._pieces_q)
        # Parts are merged before their one rounding.
        self._dtype = np.dtype(np.float32) if call.q.dtype.itemsize == 2 else call.q.dtype

    def attend(self, k: Any, v: Any, rank: int) -> None:
        """Attend to the share of the keys of a rank."""
        for keys, place_k in self._in_pieces(self._pieces_k[rank]):
            for i, (rows, place_q) in enumerate(self._in_pieces(self._pieces_q)):
                if self._sees(rows, keys):
                    offset = rows.start + self._diagonal - keys.start
                    part = self._part(self._call.q[place_q], k[place_k], v[place_k], offset)
                    self._parts[i] = self._merged(self._parts[i], part)

    def _in_pieces(self, of_sequence: list[slice]) -> Iterator[tuple[slice, tuple[slice, ...]]]:
        """Yield where each piece of a share lies in the sequence, and its index in the share."""
        start = 0
        for piece in of_sequence:
            end = start + piece.stop - piece.start
            yield piece, (slice(None),) * self._token_axis + (slice(start, end),)
            start = end

    def _sees(self, rows: slice, keys: slice) -> bool:
        """Return whether any of the rows sees any of the keys."""
        first, last = rows.start + self._diagonal, rows.stop - 1 + self._diagonal
        return (
            rows.start < rows.stop
            and keys.start < keys.stop
            and keys.start <= last + self._masks.right
            and keys.stop - 1 >= first - self._masks.left
        )

    def _part(self, q: Any, k: Any, v: Any, offset: int) -> tuple[Any, Any]:
        empty = _module(q).empty
        result: tuple[Any, Any] = attention(
            q, k, v, causal_alignment="top_left",
            diagonal_offset=max(-MAX_OFFSET, min(offset, MAX_OFFSET)),
            out=empty(q.shape, self._dtype), return_lse=True, **self._options,
        )  # fmt: skip
        return result

    def _merged(self, before: tuple[Any, Any] | None, part: tuple[Any, Any]) -> tuple[Any, Any]:
        if before is None:
            return part
        outs, lses = zip(before, part, strict=True)
        merged: tuple[Any, Any] = merge_states(outs, lses, layout=self._options["layout"])
        return merged

    def result(self) -> Any:
        """Return the rows' result, and the LSE if the call wants it."""
        q = self._call.q
        xp = _module(q)
        out = xp.zeros(q.shape, q.dtype)
        lse = xp.full(self._call.axes.lse_shape(q.shape), -np.inf, np.float32)
        for part, (_, place) in zip(self._parts, self._in_pieces(self._pieces_q), strict=True):
            if part is not None:
                out[place] = part[0].astype(q.dtype)
                lse[..., place[-1]] = part[1]
        return (out, lse) if self._call.return_lse else out


def _module(array: Any) -> Any:
    """Return the library of an array: NumPy, or CuPy."""
    return np if isinstance(array, np.ndarray) else sys.modules["cupy"]

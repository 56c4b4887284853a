"""Attention on NumPy arrays, as exact as float64 is: what the GPU's results are judged by.

The functions have the signatures and the rules of `rocke_cupy.attention` and
`rocke_cupy.attention_varlen`, which run them when the arrays are NumPy's. They also take float32
and float64 arrays without `compute_dtype`, and then round nothing.
"""

from __future__ import annotations

from typing import Any, Literal, SupportsFloat, Unpack, overload

import numpy as np

from .rules.arrays import Array, check_library
from .rules.call import Call, Problem, check_dense, check_varlen
from .rules.dtypes import finite_mean, rounded
from .rules.masks import Masks
from .rules.options import Dense, Options, Varlen, Window

__all__ = ["attention", "attention_varlen"]

_SCORES_AT_ONCE = 1 << 21
"""Scores that are in memory together, a head at least: the rest grows with Sq + Skv only."""


# fmt: off
@overload
def attention(
    q: Array, k: Array, v: Array, *, return_lse: Literal[False] = ..., **given: Unpack[Dense],
) -> Array: ...
@overload
def attention(
    q: Array, k: Array, v: Array, *, return_lse: Literal[True], **given: Unpack[Dense],
) -> tuple[Array, Any]: ...
@overload
def attention(
    q: Array, k: Array, v: Array, *, return_lse: bool, **given: Unpack[Dense],
) -> Array | tuple[Array, Any]: ...
# fmt: on
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    kv_lens: Any = None,
    causal_alignment: str = "bottom_right",
    diagonal_offset: int = 0,
    layout: str = "bshd",
    compute_dtype: Any = None,
    out: Any = None,
    return_lse: bool = False,
    check: bool = True,
    num_splits: int | None = None,
) -> Any:
    """Softmax attention of NumPy arrays, computed in float64.

    Parameters and errors are those of `rocke_cupy.attention`, except that float32 and float64
    arrays need no `compute_dtype`. With one, the inputs are rounded to it first, as on the GPU.

    Returns
    -------
    out : numpy.ndarray
        Shape and dtype of `q`.
    lse : numpy.ndarray
        Only with `return_lse`: float32, (B, Hq, Sq).

    Examples
    --------
    With all queries zero, each result is the mean of the values:

    >>> import numpy as np
    >>> from rocke_cupy import reference
    >>> q = np.zeros((1, 2, 1, 4))
    >>> k = np.ones((1, 3, 1, 4))
    >>> v = np.arange(12.0).reshape(1, 3, 1, 4)
    >>> reference.attention(q, k, v)[0, :, 0]
    array([[4., 5., 6., 7.],
           [4., 5., 6., 7.]])
    """
    _require_numpy(q=q, k=k, v=v, out=out)
    options = Options(
        softmax_scale, causal, window_size, causal_alignment, diagonal_offset, compute_dtype,
        return_lse, check, num_splits, layout,
    )  # fmt: skip
    return attend(check_dense(q, k, v, out, kv_lens, options, oracle=True))


# fmt: off
@overload
def attention_varlen(
    q: Array, k: Array, v: Array, cu_seqlens_q: Any, cu_seqlens_k: Any, *,
    return_lse: Literal[False] = ..., **given: Unpack[Varlen],
) -> Array: ...
@overload
def attention_varlen(
    q: Array, k: Array, v: Array, cu_seqlens_q: Any, cu_seqlens_k: Any, *,
    return_lse: Literal[True], **given: Unpack[Varlen],
) -> tuple[Array, Any]: ...
@overload
def attention_varlen(
    q: Array, k: Array, v: Array, cu_seqlens_q: Any, cu_seqlens_k: Any, *,
    return_lse: bool, **given: Unpack[Varlen],
) -> Array | tuple[Array, Any]: ...
# fmt: on
def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    *,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    softmax_scale: SupportsFloat | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    causal_alignment: str = "bottom_right",
    diagonal_offset: int = 0,
    compute_dtype: Any = None,
    out: Any = None,
    return_lse: bool = False,
    check: bool = True,
    num_splits: int | None = None,
) -> Any:
    """Softmax attention of packed sequences in NumPy arrays, computed in float64.

    Parameters and errors are those of `rocke_cupy.attention_varlen`, except that float32 and
    float64 arrays need no `compute_dtype`.

    Returns
    -------
    out : numpy.ndarray
        Shape and dtype of `q`; zero in rows past the last sequence.
    lse : numpy.ndarray
        Only with `return_lse`: float32, (Hq, tokens); -inf in rows past the last sequence.

    Examples
    --------
    Two sequences, of one and of two tokens. Each token of the second sees both its keys:

    >>> import numpy as np
    >>> from rocke_cupy import reference
    >>> q = np.zeros((3, 1, 2))
    >>> v = np.array([[5.0, 6.0], [1.0, 2.0], [3.0, 4.0]])[:, None]
    >>> reference.attention_varlen(q, q, v, [0, 1, 3], [0, 1, 3])[:, 0]
    array([[5., 6.],
           [2., 3.],
           [2., 3.]])
    """
    _require_numpy(q=q, k=k, v=v, out=out)
    options = Options(
        softmax_scale, causal, window_size, causal_alignment, diagonal_offset, compute_dtype,
        return_lse, check, num_splits, None, max_seqlen_q, max_seqlen_k,
    )  # fmt: skip
    return attend(check_varlen(q, k, v, out, cu_seqlens_q, cu_seqlens_k, options, oracle=True))


def _require_numpy(**arrays: Any) -> None:
    if check_library("out", **arrays):
        raise TypeError(
            "rocke_cupy.reference takes NumPy arrays; rocke_cupy.attention takes CuPy's"
        )


def attend(call: Call) -> Any:
    """Carry out a checked call on NumPy arrays."""
    out = np.empty(call.q.shape, call.q.dtype) if call.out is None else call.out
    lse = np.full(call.axes.lse_shape(call.q.shape), -np.inf, np.float32)
    # What overflows or is NaN in the inputs belongs in the result, and what underflows is 0 in it:
    # neither is an error of the caller's, whatever he set NumPy to do.
    with np.errstate(all="ignore"):
        if call.problem.varlen:
            _attend_varlen(call, out, lse)
        else:
            _attend_dense(call, out, lse)
    return (out, lse) if call.return_lse else out


def _attend_dense(call: Call, out: np.ndarray, lse: np.ndarray) -> None:
    order = (*call.axes, 3)
    q, k, v, results = (a.transpose(order) for a in (call.q, call.k, call.v, out))
    lengths = call.lengths.given.get("kv_lens", [k.shape[1]] * k.shape[0])
    for b, length in enumerate(int(n) for n in lengths):
        _entry(q[b], k[b, :length], v[b, :length], results[b], lse[b], call.problem)


def _attend_varlen(call: Call, out: np.ndarray, lse: np.ndarray) -> None:
    starts_q, starts_k = call.lengths.given.values()
    out[starts_q[-1] :] = 0
    for i in range(call.lengths.entries):
        rows = slice(starts_q[i], starts_q[i + 1])
        keys = slice(starts_k[i], starts_k[i + 1])
        _entry(call.q[rows], call.k[keys], call.v[keys], out[rows], lse[:, rows], call.problem)


def _entry(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    out: np.ndarray,
    lse: np.ndarray,
    problem: Problem,
) -> None:
    """Compute one batch entry: q (Sq, Hq, D), k and v (Skv, Hkv, D) into out and lse (Hq, Sq)."""
    if not q.size:
        return
    group = q.shape[1] // k.shape[1]
    for head in range(k.shape[1]):
        heads = slice(head * group, (head + 1) * group)
        queries, keys, values = (
            rounded(a, problem.compute_dtype).astype(np.float64)
            for a in (q[:, heads], k[:, head], v[:, head])
        )
        _head(queries, keys, values, out[:, heads], lse[heads], problem.scale, problem.masks)


def _head(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    out: np.ndarray,
    lse: np.ndarray,
    scale: float,
    masks: Masks,
) -> None:
    """Compute the query heads q (Sq, G, D) of one kv head k, v (Skv, D), some rows at a time."""
    rows_at_once = max(1, _SCORES_AT_ONCE // max(1, q.shape[1] * len(k)))
    diagonal = 0 if masks.top_left else len(k) - len(q)
    for row in range(0, len(q), rows_at_once):
        block = slice(row, row + rows_at_once)
        positions = diagonal + np.arange(row, min(row + rows_at_once, len(q)))
        first = max(0, positions[0] - masks.left)
        end = min(len(k), positions[-1] + masks.right + 1)
        keys = np.arange(first, max(first, end))
        hidden = (keys > positions[:, None] + masks.right) | (
            keys < positions[:, None] - masks.left
        )
        result, lse[:, block] = _rows(q[block], k[keys], v[keys], scale, hidden)
        out[block] = rounded(result, out.dtype)


def _rows(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, hidden: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Attend from q (R, G, D) to k, v (N, D), less the ``hidden`` (R, N): out and lse (G, R)."""
    sees_none = hidden.all(axis=-1)
    scores = np.moveaxis(q, 1, 0) @ k.T * scale
    scores[:, hidden] = -np.inf
    scores[:, sees_none] = 0
    top = scores.max(axis=-1, initial=-np.inf, keepdims=True)
    top[:, sees_none] = 0
    weights = np.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    total[:, sees_none] = 1
    # Divided first: the mean of finite numbers is finite, their sum need not be.
    out = finite_mean(weights / total @ v, np.isfinite(v).all(axis=0))
    lse = (top + np.log(total))[..., 0].astype(np.float32)
    out[:, sees_none] = 0
    lse[:, sees_none] = -np.inf
    return np.moveaxis(out, 0, 1), lse

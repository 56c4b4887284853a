"""Attention on NumPy arrays, as exact as float64 is: what the GPU's results are judged by.

The functions have the signatures and the rules of `rocke_cupy.attention` and
`rocke_cupy.attention_varlen`, which run them when the arrays are NumPy's. They also take float32
and float64 arrays without `compute_dtype`, and then round nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _checks as checks
from . import _lengths as lengths
from ._dtypes import WIDE

__all__ = ["attention", "attention_varlen"]

_SCORES_AT_ONCE = 1 << 21
"""Scores that are in memory together, a head at least: the rest grows with Sq + Skv only."""


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    kv_lens: Any = None,
    causal_alignment: str = "bottom_right",
    layout: str = "bshd",
    compute_dtype: Any = None,
    out: np.ndarray | None = None,
    return_lse: bool = False,
    check: bool = True,
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
    return dense(
        q, k, v, softmax_scale=softmax_scale, causal=causal, window_size=window_size,
        kv_lens=kv_lens, causal_alignment=causal_alignment, layout=layout,
        compute_dtype=compute_dtype, out=out, return_lse=return_lse, check=check, oracle=True,
    )  # fmt: skip


def attention_varlen(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    *,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    causal_alignment: str = "bottom_right",
    compute_dtype: Any = None,
    out: np.ndarray | None = None,
    return_lse: bool = False,
    check: bool = True,
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
    return packed(
        q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q=max_seqlen_q, max_seqlen_k=max_seqlen_k,
        softmax_scale=softmax_scale, causal=causal, window_size=window_size,
        causal_alignment=causal_alignment, compute_dtype=compute_dtype, out=out,
        return_lse=return_lse, check=check, oracle=True,
    )  # fmt: skip


def dense(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *,
    softmax_scale: Any,
    causal: Any,
    window_size: Any,
    kv_lens: Any,
    causal_alignment: Any,
    layout: Any,
    compute_dtype: Any,
    out: Any,
    return_lse: Any,
    check: Any,
    oracle: bool = False,
) -> Any:
    """`attention`; unless `oracle`, with the GPU's rule for float32 and float64 inputs."""
    _require_numpy("out", q=q, k=k, v=v, out=out)
    checks.check_layout(layout)
    checks.check_shapes(q, k, v, layout)
    rounding = checks.check_dtypes(q, k, v, compute_dtype, oracle=oracle)
    scale = checks.check_scale(softmax_scale, q.shape[-1])
    masks = checks.check_masks(causal, window_size, causal_alignment)
    checks.check_flags(return_lse=return_lse, check=check)
    key_lengths = _key_lengths(kv_lens, k, layout, check)
    out = _output(out, q, k=k, v=v, kv_lens=kv_lens)
    queries, keys, values, results = (a.transpose(checks.axes_of(layout)) for a in (q, k, v, out))
    batch, seqlen_q, heads, _ = queries.shape
    lse = np.empty((batch, heads, seqlen_q), np.float32)
    for b, length in enumerate(key_lengths):
        _entry(
            queries[b], keys[b, :length], values[b, :length], results[b], lse[b], scale, masks,
            rounding,
        )  # fmt: skip
    return (out, lse) if return_lse else out


def packed(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    *,
    max_seqlen_q: Any,
    max_seqlen_k: Any,
    softmax_scale: Any,
    causal: Any,
    window_size: Any,
    causal_alignment: Any,
    compute_dtype: Any,
    out: Any,
    return_lse: Any,
    check: Any,
    oracle: bool = False,
) -> Any:
    """`attention_varlen`; unless `oracle`, with the GPU's rule for float32 and float64 inputs."""
    _require_numpy("out", q=q, k=k, v=v, out=out)
    checks.check_shapes(q, k, v, None)
    rounding = checks.check_dtypes(q, k, v, compute_dtype, oracle=oracle)
    scale = checks.check_scale(softmax_scale, q.shape[-1])
    masks = checks.check_masks(causal, window_size, causal_alignment)
    checks.check_flags(return_lse=return_lse, check=check)
    starts_q = lengths.length_array("cu_seqlens_q", cu_seqlens_q)
    starts_k = lengths.length_array("cu_seqlens_k", cu_seqlens_k)
    _require_numpy(q=q, cu_seqlens_q=starts_q, cu_seqlens_k=starts_k)
    lengths.check_packing(starts_q, starts_k)
    longest = lengths.check_max_seqlens(max_seqlen_q, max_seqlen_k)
    if check:
        lengths.check_packed_values(starts_q, starts_k, q.shape[0], k.shape[0], longest)
    out = _output(out, q, k=k, v=v, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    lse = np.full((q.shape[1], q.shape[0]), -np.inf, np.float32)
    out[starts_q[-1] :] = 0
    for i in range(len(starts_q) - 1):
        rows = slice(starts_q[i], starts_q[i + 1])
        columns = slice(starts_k[i], starts_k[i + 1])
        _entry(q[rows], k[columns], v[columns], out[rows], lse[:, rows], scale, masks, rounding)
    return (out, lse) if return_lse else out


def _require_numpy(*optional: str, **arrays: Any) -> None:
    if checks.check_library(*optional, **arrays):
        raise TypeError(
            "rocke_cupy.reference takes NumPy arrays; rocke_cupy.attention takes CuPy's"
        )


def _key_lengths(kv_lens: Any, k: np.ndarray, layout: str, check: bool) -> list[int]:
    batch, seqlen_kv = k.shape[0], k.shape[checks.axes_of(layout)[1]]
    if kv_lens is None:
        return [seqlen_kv] * batch
    given = lengths.length_array("kv_lens", kv_lens)
    _require_numpy(k=k, kv_lens=given)
    lengths.check_length_array("kv_lens", given, batch, "one length a batch entry")
    if check:
        lengths.check_kv_lens(given, seqlen_kv)
    return [int(length) for length in given]


def _output(out: Any, q: np.ndarray, **inputs: Any) -> np.ndarray:
    if out is None:
        return np.empty(q.shape, q.dtype)
    checks.check_out(out, q)
    arrays = {name: a for name, a in inputs.items() if isinstance(a, np.ndarray)}
    checks.check_overlap(out, q=q, **arrays)
    return out


def _entry(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    out: np.ndarray,
    lse: np.ndarray,
    scale: float,
    masks: checks.Masks,
    rounding: np.dtype,
) -> None:
    """Compute one batch entry: q (Sq, Hq, D), k and v (Skv, Hkv, D) into out and lse (Hq, Sq)."""
    if not q.size:
        return
    group = q.shape[1] // k.shape[1]
    for head in range(k.shape[1]):
        heads = slice(head * group, (head + 1) * group)
        _head(
            _wide(q[:, heads], rounding), _wide(k[:, head], rounding), _wide(v[:, head], rounding),
            out[:, heads], lse[heads], scale, masks,
        )  # fmt: skip


def _wide(array: np.ndarray, rounding: np.dtype) -> np.ndarray:
    """Return the array in float64, rounded to ``rounding`` first."""
    if array.dtype in WIDE and rounding != array.dtype:
        with np.errstate(over="ignore"):
            array = array.astype(rounding)
    return array.astype(np.float64)


def _head(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    out: np.ndarray,
    lse: np.ndarray,
    scale: float,
    masks: checks.Masks,
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
        out[block], lse[:, block] = _rows(q[block], k[keys], v[keys], scale, hidden)


def _rows(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, hidden: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Attend from q (R, G, D) to k, v (N, D), less the ``hidden`` (R, N): out and lse (G, R)."""
    sees_none = hidden.all(axis=-1)
    # NaN and Inf in the inputs belong in the result; NumPy need not warn of them.
    with np.errstate(invalid="ignore", over="ignore"):
        scores = np.moveaxis(q, 1, 0) @ k.T * scale
        scores[:, hidden] = -np.inf
        scores[:, sees_none] = 0
        top = scores.max(axis=-1, initial=-np.inf, keepdims=True)
        top[:, sees_none] = 0
        weights = np.exp(scores - top)
        total = weights.sum(axis=-1, keepdims=True)
        total[:, sees_none] = 1
        out = weights @ v / total
        lse = (top + np.log(total))[..., 0].astype(np.float32)
    out[:, sees_none] = 0
    lse[:, sees_none] = -np.inf
    return np.moveaxis(out, 0, 1), lse

"""The public functions: attention on arrays, of one length or packed."""

from __future__ import annotations

from typing import Any, Literal, SupportsFloat, Unpack, overload

from . import reference
from .gpu import calls
from .rules.arrays import Array
from .rules.call import check_dense, check_varlen
from .rules.options import Dense, Options, Varlen, Window


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
    """Softmax attention: ``softmax(softmax_scale * q @ k.T + mask) @ v`` for each head.

    CuPy arrays are computed on their GPU, on CuPy's current stream. NumPy arrays are computed by
    `rocke_cupy.reference`, under the same rules.

    Parameters
    ----------
    q : array, (B, Sq, Hq, D)
        Queries; (B, Hq, Sq, D) with ``layout="bhsd"``. Any strides. bfloat16
        (``ml_dtypes.bfloat16``) or float16; float32 or float64 with `compute_dtype`. D is 1 to
        256.
    k, v : array, (B, Skv, Hkv, D)
        Keys and values, of `q`'s dtype. Hq is a multiple of Hkv; query head h uses kv head
        ``h // (Hq // Hkv)``.
    softmax_scale : float, optional
        Factor of the scores, 1/sqrt(D) by default.
    causal : bool
        Query i sees keys j <= i + Skv - Sq, so that the last query sees all keys.
    window_size : (left, right)
        Query i sees the keys from `left` before to `right` after its diagonal, both included.
        -1 or None is unlimited.
    kv_lens : int32 or int64 array or list, (B,), optional
        Number of keys that each batch entry has, 0 to Skv. It takes the place of Skv for that
        entry, in the diagonal too. Whatever `k` and `v` hold beyond it has no effect. An int32
        array on the GPU is used as it is, other forms are converted by way of the host.
    causal_alignment : {"bottom_right", "top_left"}
        With "top_left", the diagonal is at j = i whatever the lengths; windows move along.
    diagonal_offset : int
        Moves the diagonal, and the window with it, by so many keys to the right, from -2**29 to
        2**29. With "top_left", a part of a longer sequence whose queries start at `q_start` and
        whose keys start at `k_start` has the offset ``q_start - k_start``.
    layout : {"bshd", "bhsd"}
        Order of the axes of `q`, `k`, `v` and `out`.
    compute_dtype : {"bfloat16", "float16"}, optional
        What float32 and float64 inputs are rounded to for the products.
    out : array, optional
        Where to store the result: shape and dtype of `q`, any strides, no memory shared with the
        inputs. For inputs of 16 bits it may be float32, which keeps what rounding would drop.
    return_lse : bool
        Also return the logarithm of the sum of the exponentials of the scores.
    check : bool
        Read `kv_lens` from the device, which waits for it, and refuse bad values. Without this
        check, bad values are undefined behaviour.
    num_splits : int, optional
        Parts that the keys are cut into, 1 to 32, each with workgroups of its own; their results
        are merged. By default so many that the GPU is busy. 1 never splits, so that the bits of a
        row do not depend on the size of the batch around it. No effect on NumPy arrays.

    Returns
    -------
    out : array
        Shape and dtype of `q`, or the given array. Rows that see no key are 0.
    lse : array
        Only with `return_lse`: float32, (B, Hq, Sq), natural logarithm; -inf for rows that see no
        key.

    Raises
    ------
    ValueError, TypeError
        The sentence names the argument, its value and the rule.
    NotImplementedError
        For what is not supported, another GPU included.

    Notes
    -----
    NaN or Inf in a key that a row sees shows in that row. In a key that a mask hides from the row,
    but that lies within the length, its effect is not specified.

    On the GPU, bfloat16 values may be as large as 2**120 divided by the number of keys; sums of
    larger ones may overflow to infinity or NaN. Values and results below 2**-126 count as 0.

    Examples
    --------
    >>> import ml_dtypes, numpy as np, rocke_cupy
    >>> rng = np.random.default_rng(0)
    >>> q = rng.standard_normal((2, 5, 8, 64)).astype(ml_dtypes.bfloat16)
    >>> k, v = (rng.standard_normal((2, 7, 2, 64)).astype(q.dtype) for _ in "kv")
    >>> out, lse = rocke_cupy.attention(q, k, v, causal=True, return_lse=True)
    >>> out.shape, out.dtype.name, lse.shape
    ((2, 5, 8, 64), 'bfloat16', (2, 8, 5))

    The last query sees all keys, causal or not:

    >>> full = rocke_cupy.attention(q, k, v)
    >>> bool((out[:, -1] == full[:, -1]).all())
    True
    """
    options = (
        softmax_scale, causal, window_size, causal_alignment, diagonal_offset, compute_dtype,
        return_lse, check, num_splits, layout,
    )  # fmt: skip
    result = calls.repeat(q, k, v, out, kv_lens, options)
    if result.__class__ is not calls.Unknown:
        return result
    given = Options(*options)
    call = check_dense(q, k, v, out, kv_lens, given)
    return calls.attend(call, given, result.key) if call.on_gpu else reference.attend(call)


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
    """Softmax attention within each of the sequences packed one after another in the arrays.

    Parameters
    ----------
    q : array, (tokens_q, Hq, D)
        Queries of all sequences. Dtypes and strides as in `attention`.
    k, v : array, (tokens_k, Hkv, D)
        Keys and values of all sequences.
    cu_seqlens_q, cu_seqlens_k : int32 or int64 array or list, (N + 1,)
        Sequence n has the query tokens ``cu_seqlens_q[n]`` up to ``cu_seqlens_q[n + 1]``, and
        likewise keys. Both start with 0 and never fall; the last value is at most the number of
        tokens.
    max_seqlen_q, max_seqlen_k : int, optional
        Longest sequence, or more. Without `max_seqlen_q` it is computed, which reads
        `cu_seqlens_q` from the device.
    softmax_scale, causal, window_size, causal_alignment, diagonal_offset
        As in `attention`; the diagonal is that of the sequence.
    compute_dtype, out, return_lse
        As in `attention`.
    check : bool
        Read the boundaries from the device, which waits for it, and refuse bad ones and a too
        small `max_seqlen_q` or `max_seqlen_k`. Without this check, bad values are undefined
        behaviour.
    num_splits : int, optional
        As in `attention`, but by default the keys of packed sequences are not split.

    Returns
    -------
    out : array
        Shape and dtype of `q`; 0 in rows that see no key and in rows past the last sequence.
    lse : array
        Only with `return_lse`: float32, (Hq, tokens_q), natural logarithm; -inf in such rows.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As `attention`.

    Examples
    --------
    >>> import ml_dtypes, numpy as np, rocke_cupy
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.standard_normal((9, 4, 64)).astype(ml_dtypes.bfloat16) for _ in "qkv")
    >>> out = rocke_cupy.attention_varlen(q, k, v, [0, 4, 9], [0, 4, 9], causal=True)
    >>> alone = rocke_cupy.attention(q[None, 4:], k[None, 4:], v[None, 4:], causal=True)
    >>> bool((out[4:] == alone[0]).all())
    True
    """
    options = (
        softmax_scale, causal, window_size, causal_alignment, diagonal_offset, compute_dtype,
        return_lse, check, num_splits, None, max_seqlen_q, max_seqlen_k,
    )  # fmt: skip
    result = calls.repeat(q, k, v, out, (cu_seqlens_q, cu_seqlens_k), options)
    if result.__class__ is not calls.Unknown:
        return result
    given = Options(*options)
    call = check_varlen(q, k, v, out, cu_seqlens_q, cu_seqlens_k, given)
    return calls.attend(call, given, result.key) if call.on_gpu else reference.attend(call)

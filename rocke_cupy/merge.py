"""Joining results over parts of the keys into the result over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .gpu import merge as gpu
from .rules.dtypes import finite_mean, rounded
from .rules.parts import Parts, check_parts


def merge_states(outs: Sequence[Any], lses: Sequence[Any], *, layout: str = "bshd") -> Any:
    """Merge attention results over disjoint sets of keys, exactly.

    Parameters
    ----------
    outs : sequence of arrays
        What `attention` or `attention_varlen` returned for each set of keys: equal shapes and
        dtypes, any strides. CuPy arrays are merged on their GPU, on CuPy's current stream.
    lses : sequence of arrays
        The LSE that came with each: float32.
    layout : {"bshd", "bhsd"}
        As given to `attention`. Packed results have one order only.

    Returns
    -------
    out : array
        Shape and dtype of each of `outs`; 0 in rows that saw no key in any set.
    lse : array
        float32, shape of each of `lses`; -inf in such rows.

    Raises
    ------
    ValueError, TypeError
        The sentence names the argument, its value and the rule.

    Examples
    --------
    >>> import ml_dtypes, numpy as np, rocke_cupy
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = (rng.standard_normal((1, 6, 2, 64)).astype(np.float16) for _ in "qkv")
    >>> halves = [
    ...     rocke_cupy.attention(q, k[:, keys], v[:, keys], return_lse=True)
    ...     for keys in (slice(0, 3), slice(3, 6))
    ... ]
    >>> out, lse = rocke_cupy.merge_states(*zip(*halves))
    >>> full, full_lse = rocke_cupy.attention(q, k, v, return_lse=True)
    >>> bool(abs(out - full).max() < 2e-3), bool(abs(lse - full_lse).max() < 1e-6)
    (True, True)
    """
    parts = check_parts(outs, lses, layout)
    if parts.on_gpu:
        return gpu.merge(parts.outs, parts.lses, parts.lse_axes)
    # Underflow of a weight is no error of the caller's, whatever he set NumPy to do.
    with np.errstate(all="ignore"):
        return _merge(parts)


def _merge(parts: Parts) -> tuple[np.ndarray, np.ndarray]:
    """Merge NumPy arrays."""
    shares = np.stack(parts.lses).astype(np.float64)
    top = shares.max(axis=0)
    unseen = np.isneginf(top)
    weights = np.exp(shares - np.where(unseen, 0, top))
    total = np.where(unseen, 1, weights.sum(axis=0))
    lse = np.where(unseen, -np.inf, top + np.log(total)).astype(np.float32)
    # Divided first: the mean of finite numbers is finite, their sum need not be.
    weights /= total
    merged = np.zeros(parts.outs[0].shape)
    finite = np.ones(merged.shape, bool)
    for out, *columns in zip(parts.outs, weights, shares, strict=True):
        weight, share = (c.transpose(parts.lse_axes)[..., None] for c in columns)
        # A part in which a row saw no key has no say, whatever its out holds. One of little
        # weight has, however little: a NaN in it is one that the row saw.
        said = np.where(np.isneginf(share), 0, out.astype(np.float64) * weight)
        merged, finite = merged + said, finite & np.isfinite(said)
    return rounded(finite_mean(merged, finite), parts.outs[0].dtype), lse

"""Joining results over parts of the keys into the result over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _checks as checks
from ._dtypes import SHORT_NAMES, WIDE


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
    outs, lses, on_gpu = _checked(outs, lses, layout)
    if on_gpu:
        from . import _merge_device

        return _merge_device.merge(outs, lses, _lse_axes(outs[0].ndim, layout))
    shares = np.stack(lses).astype(np.float64)
    top = shares.max(axis=0)
    unseen = np.isneginf(top)
    with np.errstate(invalid="ignore"):
        weights = np.exp(shares - np.where(unseen, 0, top))
        total = np.where(unseen, 1, weights.sum(axis=0))
        lse = np.where(unseen, -np.inf, top + np.log(total)).astype(np.float32)
        weights /= total
    # An LSE has the head before the token.
    columns = [np.moveaxis(w, -1, -2) if layout == "bshd" else w for w in (weights, shares)]
    merged = np.zeros(outs[0].shape)
    for out, weight, share in zip(outs, *columns, strict=True):
        # A part in which a row saw no key has no say, whatever its out holds. One of little
        # weight has, however little: a NaN in it is one that the row saw.
        with np.errstate(invalid="ignore", over="ignore"):
            said = out.astype(np.float64) * weight[..., None]
        merged += np.where(np.isneginf(share)[..., None], 0, said)
    return merged.astype(outs[0].dtype), lse


def _checked(
    outs: Sequence[Any], lses: Sequence[Any], layout: str
) -> tuple[list[Any], list[Any], bool]:
    outs, lses = (_as_list(name, arrays) for name, arrays in (("outs", outs), ("lses", lses)))
    if not outs or len(outs) != len(lses):
        raise ValueError(
            f"outs has {len(outs)} arrays and lses has {len(lses)}: there must be one of each for "
            "each set of keys, at least one"
        )
    checks.check_layout(layout)
    named = {f"outs[{i}]": a for i, a in enumerate(outs)}
    named_lses = {f"lses[{i}]": a for i, a in enumerate(lses)}
    on_gpu = checks.check_library(**named, **named_lses)
    if on_gpu:
        checks.check_devices(**named, **named_lses)
    _check_outs(named, layout)
    first = outs[0]
    lse_shape = _lse_shape(first.shape, layout)
    for name, lse in named_lses.items():
        if lse.dtype != np.float32:
            raise TypeError(f"{name}.dtype={lse.dtype} must be float32")
        if lse.shape != lse_shape:
            raise ValueError(
                f"{name}.shape={lse.shape} must be {lse_shape} for outs[0].shape={first.shape} "
                f"with layout={layout!r}"
            )
    return outs, lses, on_gpu


def _as_list(name: str, arrays: Any) -> list[Any]:
    try:
        return list(arrays)
    except TypeError:
        raise TypeError(
            f"{name} must be a sequence of arrays, not {type(arrays).__name__}"
        ) from None


def _check_outs(outs: dict[str, Any], layout: str) -> None:
    first = outs["outs[0]"]
    if first.ndim not in (3, 4) or (first.ndim == 3 and layout != "bshd"):
        raise ValueError(
            f"outs[0].shape={first.shape} with layout={layout!r} must be what attention returns, "
            "with 4 dimensions, or attention_varlen, with 3 and the default layout"
        )
    for name, out in outs.items():
        if out.dtype not in SHORT_NAMES and out.dtype not in WIDE:
            raise TypeError(f"{name}.dtype={out.dtype} must be one that attention returns")
        if out.dtype != first.dtype:
            raise TypeError(f"{name}.dtype={out.dtype} must equal outs[0].dtype={first.dtype}")
        if out.shape != first.shape:
            raise ValueError(f"{name}.shape={out.shape} must equal outs[0].shape={first.shape}")


def _lse_shape(out_shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    if layout == "bhsd":
        return out_shape[:-1]
    return (*out_shape[:-3], out_shape[-2], out_shape[-3])


def _lse_axes(ndim: int, layout: str) -> tuple[int, ...]:
    """Return which axis of an LSE belongs to each outer axis of an out."""
    if ndim == 3:
        return (1, 0)
    return (0, 1, 2) if layout == "bhsd" else (0, 2, 1)

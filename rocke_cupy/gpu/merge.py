"""Merging attention results on CuPy arrays: checked arrays in, one or a few launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..rules.parts import MAX_PARTS
from .layout import Layout
from .steps import Copy, Merge

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def merge(outs: Sequence[Any], lses: Sequence[Any], lse_axes: Sequence[int]) -> tuple[Any, Any]:
    """Merge results of equal shapes and dtypes on one device, on its current stream.

    Parameters
    ----------
    outs, lses : sequence of cupy.ndarray
        Of any strides.
    lse_axes : sequence of int
        The axes of an LSE in the order of the outer axes of an out.
    """
    import cupy

    with cupy.cuda.Device(outs[0].data.device_id):
        return _merge(outs, lses, lse_axes)


def _merge(outs: Sequence[Any], lses: Sequence[Any], lse_axes: Sequence[int]) -> tuple[Any, Any]:
    dtype = outs[0].dtype
    # More parts than one launch takes are merged in groups, whose results are not rounded.
    while len(outs) > MAX_PARTS:
        groups = range(0, len(outs), MAX_PARTS)
        wide = _FLOAT64 if dtype == _FLOAT64 else _FLOAT32
        merged = [
            _merge_once(outs[i : i + MAX_PARTS], lses[i : i + MAX_PARTS], lse_axes, wide)
            for i in groups
        ]
        outs, lses = zip(*merged, strict=True)
    return _merge_once(outs, lses, lse_axes, dtype)


def _merge_once(
    outs: Sequence[Any], lses: Sequence[Any], lse_axes: Sequence[int], dtype: np.dtype
) -> tuple[Any, Any]:
    import cupy

    out, lse = cupy.ndarray(outs[0].shape, dtype), cupy.ndarray(lses[0].shape, _FLOAT32)
    if out.size == 0:
        return out, lse
    outs, lses = _alike(outs), _alike(lses)
    part_lse, result_lse = ([a.strides[axis] for axis in lse_axes] for a in (lses[0], lse))
    parts, result = Layout.of(outs[0]), Layout.of(out)
    step = Merge(parts, result, part_lse, result_lse, len(outs), outs[0].data.device_id)
    step.run([o.data.ptr for o in outs], [s.data.ptr for s in lses], out, lse)
    return out, lse


def _alike(arrays: Sequence[Any]) -> Sequence[Any]:
    """Return the arrays, or copies of them, with equal strides: a launch has one set."""
    if all(array.strides == arrays[0].strides for array in arrays):
        return arrays
    return [array if array.flags.c_contiguous else _contiguous(array) for array in arrays]


def _contiguous(array: Any) -> Any:
    import cupy

    copy = cupy.ndarray(array.shape, array.dtype)
    Copy(Layout.of(array), Layout.of(copy), array.data.device_id).run(array, copy)
    return copy

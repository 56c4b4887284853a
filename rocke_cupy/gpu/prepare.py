"""From a checked problem to its plan: which kernel, and which copies and merges around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..rules.call import Problem
from ..rules.shapes import Axes
from ..select import select
from ..spec import AttentionDenseSpec
from .layout import Layout
from .plan import Plan
from .stepped import SteppedPlan

_VECTOR_BYTES = 16
"""A lane loads so many bytes at once: q, k and v start, and step, in multiples of them."""

_OUT_VECTOR = 4
"""A lane stores so many elements at once."""

_WIDE_BYTES = 2**31
"""Tokens of a head of k and v that span more need the variant `wide_kv`."""

_MAX_ROW_BYTES = 2**31 // 128
"""Tokens further apart would span more within the 128 keys of two tiles; q and out have 32 rows."""

_FLOAT32 = np.dtype(np.float32)


def prepare(
    problem: Problem,
    axes: Axes,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    *,
    return_lse: bool,
) -> AnyPlan:
    """Choose the kernel for a problem with at least one output element and bind its arguments.

    ``out`` is None for a fresh, contiguous result.
    """
    arrays = {"q": q, "k": k, "v": v}
    layouts = {name: Layout.of(array) for name, array in arrays.items()}
    layouts["out"] = Layout.contiguous(q.shape, q.dtype) if out is None else Layout.of(out)
    unfit = {name for name in "qkv" if why_not(name, layouts[name], arrays[name].data.ptr, axes)}
    if why_not("out", layouts["out"], 0 if out is None else out.data.ptr, axes):
        unfit.add("out")
    fit = {
        name: _copied(name, layout, axes, problem) if name in unfit else layout
        for name, layout in layouts.items()
    }
    wide = any(_head_bytes(fit[name], axes) >= _WIDE_BYTES for name in "kv")
    spec = select(problem, wide_kv=wide)
    return bind(problem, spec, axes, layouts, fit, q.device.id, return_lse=return_lse)


def bind(
    problem: Problem,
    spec: AttentionDenseSpec,
    axes: Axes,
    layouts: Mapping[str, Layout],
    fit: Mapping[str, Layout],
    device_id: int,
    *,
    return_lse: bool,
) -> AnyPlan:
    """Return the plan of a spec for arrays of ``layouts``, which are copied to those of ``fit``."""
    split = spec.num_splits > 1
    if split:
        # The parts stay in float32 until the merge, which rounds once.
        spec = spec.replace(float32_out=True)
        fit = {**fit, "out": Layout.contiguous(fit["out"].shape, _FLOAT32)}
    plan = Plan(problem, spec, axes, fit, device_id, return_lse=return_lse)
    if not split and all(fit[name] is layouts[name] for name in layouts):
        return plan
    return SteppedPlan(plan, axes, layouts, fit, spec.num_splits, return_lse=return_lse)


AnyPlan = Plan | SteppedPlan


def why_not(name: str, layout: Layout, address: int, axes: Axes) -> str:
    """Return why the kernel cannot take an array as it is, "" if it can."""
    item = layout.dtype.itemsize
    if item == 8 or (item == 4 and name != "out"):
        return f"its dtype is {layout.dtype}"
    head_dim = layout.shape[-1]
    if head_dim % 8:
        return f"its head dim {head_dim} is not a multiple of 8"
    if layout.strides[-1] != item:
        return f"its last axis has a stride of {layout.strides[-1]} bytes, not {item}"
    vector = _OUT_VECTOR * item if name == "out" else _VECTOR_BYTES
    if address % vector:
        return f"it does not start at a multiple of {vector} bytes"
    used = [axis for axis in axes if axis >= 0 and layout.shape[axis] > 1]
    for axis in used:
        if layout.strides[axis] % vector:
            return f"its stride of {layout.strides[axis]} bytes is not a multiple of {vector}"
    if axes.token in used:
        step = layout.strides[axes.token]
        # q alone may repeat a token.
        least = 0 if name == "q" else head_dim * item
        if not least <= step <= _MAX_ROW_BYTES:
            return f"its tokens are {step} bytes apart, not from {least} to {_MAX_ROW_BYTES}"
    return ""


def _copied(name: str, layout: Layout, axes: Axes, problem: Problem) -> Layout:
    """Return the layout that an array is copied to or from: contiguous, its head dim padded."""
    shape = [*layout.shape[:-1], -(-layout.shape[-1] // 8) * 8]
    if name == "out":
        wide = problem.out_dtype != problem.compute_dtype
        return Layout.contiguous(shape, _FLOAT32 if wide else problem.compute_dtype)
    # A broadcast axis stays one, but for what the kernel steps over: tokens and columns.
    kept = [
        1 if stride == 0 and axis in (axes.batch, axes.head) else length
        for axis, (length, stride) in enumerate(zip(shape, layout.strides, strict=True))
    ]
    return Layout.contiguous(kept, problem.compute_dtype).alike(shape)


def _head_bytes(layout: Layout, axes: Axes) -> int:
    """Return how far the tokens of one head reach."""
    tokens = layout.shape[axes.token]
    return max(tokens - 1, 0) * layout.strides[axes.token] + layout.shape[-1] * 2

"""How a checked problem is carried out on CuPy arrays, prepared once and then only repeated.

A plan depends on shapes, strides, dtypes, alignment, flags and device, never on addresses or
values: a repeated call looks its plan up, exchanges the pointers and launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from . import _checks as checks
from ._build import build
from ._coverage import check_covered
from ._launch import element_strides, pack_shape
from .dense import attention_dense_block, attention_dense_grid, build_attention_dense
from .select import select
from .spec import AttentionDenseSpec

_VECTOR_BYTES = 16
"""What the kernel loads at once: q, k and v start, and step, in multiples of it."""

_OUT_VECTOR = 4
"""Elements that it stores at once."""

_FLOAT32 = np.dtype(np.float32)

_WIDE_BYTES = 2**32
"""Offsets within one head of k and v have 32 bits unless the kernel is the one for wide ones."""


class Axes(NamedTuple):
    """Which axes of an array are the batch, the token and the head; -1: there is none."""

    batch: int
    token: int
    head: int


DENSE_AXES = {layout: Axes(*checks.axes_of(layout)[:3]) for layout in checks.LAYOUTS}
PACKED_AXES = Axes(-1, 0, 1)


class Plan:
    """A kernel with all its arguments but the pointers."""

    def __init__(
        self,
        problem: checks.Problem,
        spec: AttentionDenseSpec,
        axes: Axes,
        arrays: Mapping[str, Any],
        *,
        return_lse: bool,
    ) -> None:
        q = arrays["q"]
        self._cupy = _cupy_calls()
        self.device_id: int = q.device.id
        self.out_shape, self.out_dtype = q.shape, q.dtype
        self.lse_shape = _lse_shape(q.shape, axes) if return_lse else None
        low, high = _span(arrays["out"])
        spans = {name: _span(arrays[name]) for name in "qkv"}
        # Between these distances of an input from the output, the two may overlap.
        self._apart = {name: (low - end, high - start) for name, (start, end) in spans.items()}
        self.grid = attention_dense_grid(spec)
        self.block = attention_dense_block(spec)
        self._launch = build(build_attention_dense(spec), self.device_id, spec)
        self.scale = np.float32(problem.scale)
        tokens = q.shape[axes.token]
        self.shape = pack_shape(
            strides={name[0]: element_strides(array, axes) for name, array in arrays.items()},
            masks=problem.masks,
            lse_batch=0 if axes.batch < 0 else problem.num_query_heads * tokens,
            lse_head=tokens,
            batch=problem.batch,
            seqlen_q=problem.seqlen_q,
            seqlen_kv=problem.seqlen_kv,
            query_heads=problem.num_query_heads,
            kv_heads=problem.num_kv_heads,
            num_splits=spec.num_splits,
            num_workgroups=self.grid[0] * self.grid[1] * self.grid[2],
            total_q=tokens,
        )

    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any = None,
        kv_lens: Any = None,
        cu_seqlens_q: Any = None,
        cu_seqlens_k: Any = None,
    ) -> Any:
        """Launch on the current stream; return out, and the LSE if the plan has one.

        The lengths are int32 device arrays, contiguous. This is what a repeated call costs, so
        it does nothing that a plan could hold.
        """
        current_device, device, empty = self._cupy
        if current_device() != self.device_id:
            with device(self.device_id):
                return self.run(q, k, v, out, kv_lens, cu_seqlens_q, cu_seqlens_k)
        if out is None:
            out = empty(self.out_shape, self.out_dtype)
        else:
            self._check_apart(out, q, k, v)
        lse = None if self.lse_shape is None else empty(self.lse_shape, _FLOAT32)
        self._launch(
            self.grid, self.block,
            (q, k, v, out, self.scale, cu_seqlens_q, cu_seqlens_k, kv_lens, lse, self.shape),
        )  # fmt: skip
        return out if lse is None else (out, lse)

    def _check_apart(self, out: Any, q: Any, k: Any, v: Any) -> None:
        """Refuse an ``out`` that overlaps an input; the exact test is only made near one."""
        address = out.data.ptr
        for name, array in (("q", q), ("k", k), ("v", v)):
            below, above = self._apart[name]
            if below < array.data.ptr - address < above:
                checks.check_overlap(out, **{name: array})


def _cupy_calls() -> tuple[Any, Any, Any]:
    """Return what a launch needs of CuPy, so that it need not be looked up each time."""
    import cupy

    return cupy.cuda.runtime.getDevice, cupy.cuda.Device, cupy.ndarray


def prepare(
    problem: checks.Problem,
    axes: Axes,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    *,
    return_lse: bool,
    num_splits: int | None = 1,
) -> Plan:
    """Choose the kernel for a problem with at least one output element and bind its arguments.

    ``out`` is None for a fresh, contiguous result.
    """
    arrays = {"q": q, "k": k, "v": v, "out": _Fresh(q) if out is None else out}
    check_covered(problem, packing(arrays, axes))
    wide = any(_head_bytes(arrays[name], axes) >= _WIDE_BYTES for name in "kv")
    spec = select(problem, wide_kv=wide, num_splits=num_splits)
    return Plan(problem, spec, axes, arrays, return_lse=return_lse)


class _Fresh:
    """Shape and strides of a result that is not allocated yet: contiguous, aligned."""

    def __init__(self, like: Any) -> None:
        self.shape, self.dtype = like.shape, like.dtype
        steps = [like.dtype.itemsize]
        for length in reversed(like.shape[1:]):
            steps.append(steps[-1] * length)
        self.strides = tuple(reversed(steps))
        self.address = 0


def packing(arrays: Mapping[str, Any], axes: Axes) -> dict[str, str]:
    """Return the arrays that the kernel cannot take as they are, each with the reason."""
    reasons = {name: _why_not(name, array, axes) for name, array in arrays.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def _why_not(name: str, array: Any, axes: Axes) -> str:
    item = array.dtype.itemsize
    if name != "out" and item != 2:
        return f"its dtype is {array.dtype}"
    if name == "out" and item == 8:
        return f"its dtype is {array.dtype}"
    head_dim = array.shape[-1]
    if head_dim % 8:
        return f"its head dim {head_dim} is not a multiple of 8"
    if head_dim > 1 and array.strides[-1] != item:
        return f"its last axis has a stride of {array.strides[-1]} bytes, not {item}"
    vector = _OUT_VECTOR * item if name == "out" else _VECTOR_BYTES
    if address_of(array) % vector:
        return f"it does not start at a multiple of {vector} bytes"
    used = [axis for axis in axes if axis >= 0 and array.shape[axis] > 1]
    for axis in used:
        if array.strides[axis] % vector:
            return f"its stride of {array.strides[axis]} bytes is not a multiple of {vector}"
    if name in "kv" and axes.token in used and array.strides[axes.token] < head_dim * item:
        return f"its tokens are {array.strides[axes.token]} bytes apart, less than a row"
    return ""


def address_of(array: Any) -> int:
    """Return where an array's first element lies."""
    return array.address if isinstance(array, _Fresh) else array.data.ptr


def _head_bytes(array: Any, axes: Axes) -> int:
    """Return how far the tokens of one head reach."""
    tokens = array.shape[axes.token]
    return max(tokens - 1, 0) * array.strides[axes.token] + array.shape[-1] * array.dtype.itemsize


def _span(array: Any) -> tuple[int, int]:
    """Return the bytes, from the first element's address, between which an array lies."""
    if 0 in array.shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    return low, sum(r for r in reach if r > 0) + array.dtype.itemsize


def _lse_shape(q_shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    per_head = (q_shape[axes.head], q_shape[axes.token])
    return per_head if axes.batch < 0 else (q_shape[axes.batch], *per_head)

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
from ._launch import element_strides, pack_shape
from ._steps import Layout
from .dense import attention_dense_block, attention_dense_grid, build_attention_dense
from .spec import AttentionDenseSpec

_FLOAT32 = np.dtype(np.float32)


class Axes(NamedTuple):
    """Which axes of an array are the batch, the token and the head; -1: there is none."""

    batch: int
    token: int
    head: int


DENSE_AXES = {layout: Axes(*checks.axes_of(layout)[:3]) for layout in checks.LAYOUTS}
PACKED_AXES = Axes(-1, 0, 1)


class Plan:
    """The attention kernel with all its arguments but the pointers.

    Parameters
    ----------
    problem : Problem
    spec : AttentionDenseSpec
    axes : Axes
    layouts : mapping
        Of q, k, v and out.
    device_id : int
    return_lse : bool
    """

    def __init__(
        self,
        problem: checks.Problem,
        spec: AttentionDenseSpec,
        axes: Axes,
        layouts: Mapping[str, Layout],
        device_id: int,
        *,
        return_lse: bool,
    ) -> None:
        out = layouts["out"]
        tokens = out.shape[axes.token]
        self.device_id = device_id
        self.batch, self.seqlen_kv = problem.batch, problem.seqlen_kv
        self.out_shape, self.out_dtype = out.shape, out.dtype
        self.lse_shape = lse_shape(out.shape, axes) if return_lse else None
        self._cupy = cupy_calls()
        self._apart = distances(layouts)
        self._grid, self._block = attention_dense_grid(spec), attention_dense_block(spec)
        self._launch = build(build_attention_dense(spec), device_id, spec)
        self._scale = np.float32(problem.scale)
        self._shape = pack_shape(
            strides={name[0]: element_strides(layout, axes) for name, layout in layouts.items()},
            masks=problem.masks,
            lse_batch=0 if axes.batch < 0 else problem.num_query_heads * tokens,
            lse_head=tokens,
            o_split=_elements(out),
            lse_split=_elements(out) // out.shape[-1],
            batch=problem.batch,
            seqlen_q=problem.seqlen_q,
            seqlen_kv=problem.seqlen_kv,
            query_heads=problem.num_query_heads,
            kv_heads=problem.num_kv_heads,
            num_splits=spec.num_splits,
            num_workgroups=self._grid[0] * self._grid[1] * self._grid[2],
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
            check_apart(self._apart, out, q, k, v)
        lse = None if self.lse_shape is None else empty(self.lse_shape, _FLOAT32)
        self.launch(q, k, v, out, lse, kv_lens, cu_seqlens_q, cu_seqlens_k)
        return out if lse is None else (out, lse)

    def launch(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        lse: Any,
        kv_lens: Any,
        cu_seqlens_q: Any,
        cu_seqlens_k: Any,
    ) -> None:
        """Launch the kernel on arrays of the plan's layouts."""
        self._launch(
            self._grid, self._block,
            (q, k, v, out, self._scale, cu_seqlens_q, cu_seqlens_k, kv_lens, lse, self._shape),
        )  # fmt: skip


def cupy_calls() -> tuple[Any, Any, Any]:
    """Return what a launch needs of CuPy, so that it need not be looked up each time."""
    import cupy

    return cupy.cuda.runtime.getDevice, cupy.cuda.Device, cupy.ndarray


def lse_shape(out_shape: tuple[int, ...], axes: Axes) -> tuple[int, ...]:
    """Return the shape of the LSE that goes with a result."""
    per_head = (out_shape[axes.head], out_shape[axes.token])
    return per_head if axes.batch < 0 else (out_shape[axes.batch], *per_head)


def distances(layouts: Mapping[str, Layout]) -> dict[str, tuple[int, int]]:
    """Return how far from ``out`` each input must start, in bytes, lest they may overlap."""
    low, high = _span(layouts["out"])
    spans = {name: _span(layouts[name]) for name in "qkv"}
    return {name: (low - end, high - start) for name, (start, end) in spans.items()}


def check_apart(apart: Mapping[str, tuple[int, int]], out: Any, q: Any, k: Any, v: Any) -> None:
    """Refuse an ``out`` that overlaps an input; the exact test is only made near one."""
    address = out.data.ptr
    for name, array in (("q", q), ("k", k), ("v", v)):
        below, above = apart[name]
        if below < array.data.ptr - address < above:
            checks.check_overlap(out, **{name: array})


def _span(layout: Layout) -> tuple[int, int]:
    """Return the bytes, from the first element's address, between which an array lies."""
    if 0 in layout.shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(layout.shape, layout.strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    return low, sum(r for r in reach if r > 0) + layout.dtype.itemsize


def _elements(layout: Layout) -> int:
    """Return the number of elements: how far apart the results of two splits lie."""
    total = 1
    for length in layout.shape:
        total *= length
    return total

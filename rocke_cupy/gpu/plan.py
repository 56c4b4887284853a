"""How a checked problem is carried out on CuPy arrays, prepared once and then only repeated.

A plan depends on shapes, strides, dtypes, alignment, flags and device, never on addresses or
values: a repeated call looks its plan up, exchanges the pointers and launches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..dense import attention_dense_block, attention_dense_grid, build_attention_dense
from ..kernels.build import build
from ..rules.arrays import check_overlap
from ..rules.call import Problem
from ..rules.shapes import Axes
from ..spec import AttentionDenseSpec
from .launch import PreparedLaunch, element_strides, pack_shape, split_scale
from .lengths import DeviceLengths
from .steps import Layout

_FLOAT32 = np.dtype(np.float32)


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
        problem: Problem,
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
        self.out_shape, self.out_dtype = out.shape, out.dtype
        self.lse_shape = axes.lse_shape(out.shape) if return_lse else None
        self._cupy = cupy_calls()
        self._apart = distances(layouts)
        grid = attention_dense_grid(spec)
        scale, query_exponent = split_scale(problem.scale)
        shape = pack_shape(
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
            num_workgroups=grid[0] * grid[1] * grid[2],
            total_q=tokens,
            query_exponent=query_exponent,
        )
        function = build(build_attention_dense(spec), device_id, spec)
        self.launch = PreparedLaunch(function, grid, attention_dense_block(spec), scale, shape)

    def run(
        self,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        at_q: int,
        at_k: int,
        at_v: int,
        lengths: DeviceLengths | None,
    ) -> Any:
        """Launch on the current stream; return out, and the LSE if the plan has one.

        This is what a repeated call costs, so it does nothing that a plan could hold. The
        addresses of q, k and v are the caller's who has just read them.
        """
        current_device, device, empty = self._cupy
        if current_device() != self.device_id:
            with device(self.device_id):
                return self.run(q, k, v, out, at_q, at_k, at_v, lengths)
        if out is None:
            out = empty(self.out_shape, self.out_dtype)
            at_out = out.data.ptr
        else:
            at_out = out.data.ptr
            if near(self._apart, at_out, at_q, at_k, at_v):
                check_overlap(out, q=q, k=k, v=v)
        if lengths is None:
            at_lens = at_starts_q = at_starts_k = 0
        else:
            at_lens, at_starts_q, at_starts_k = map(address, lengths)
        if self.lse_shape is None:
            self.launch(at_q, at_k, at_v, at_out, at_starts_q, at_starts_k, at_lens, 0)
            return out
        lse = empty(self.lse_shape, _FLOAT32)
        self.launch(at_q, at_k, at_v, at_out, at_starts_q, at_starts_k, at_lens, lse.data.ptr)
        return out, lse


def address(array: Any) -> int:
    """Return where an array starts, 0 for None."""
    return 0 if array is None else array.data.ptr


def cupy_calls() -> tuple[Any, Any, Any]:
    """Return what a launch needs of CuPy, so that it need not be looked up each time."""
    import cupy

    return cupy.cuda.runtime.getDevice, cupy.cuda.Device, cupy.ndarray


Distances = tuple[int, int, int, int, int, int]


def distances(layouts: Mapping[str, Layout]) -> Distances:
    """Return how far from ``out`` each input starts, at least and at most, if they overlap."""
    low, high = _span(layouts["out"])
    (q_low, q_high), (k_low, k_high), (v_low, v_high) = (_span(layouts[name]) for name in "qkv")
    return (
        low - q_high, high - q_low, low - k_high, high - k_low, low - v_high, high - v_low,
    )  # fmt: skip


def near(apart: Distances, out: int, q: int, k: int, v: int) -> bool:
    """Return whether ``out`` may overlap an input, by their addresses."""
    q_from, q_to, k_from, k_to, v_from, v_to = apart
    return q_from < q - out < q_to or k_from < k - out < k_to or v_from < v - out < v_to


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

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
from .launch import ARGUMENTS, PreparedLaunch, element_strides, pack_shape, split_scale
from .layout import Layout, distances, near
from .lengths import DeviceLengths

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
        import cupy

        out = layouts["out"]
        tokens = out.shape[axes.token]
        self.device_id = device_id
        self.out_shape, self.out_dtype = out.shape, out.dtype
        self.lse_shape = axes.lse_shape(out.shape) if return_lse else None
        self._empty = cupy.ndarray
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
            kv_heads=problem.num_kv_heads,
            group=spec.num_queries_per_kv,
            query_blocks=spec.num_query_blocks,
            num_splits=spec.num_splits,
            num_workgroups=grid[0] * grid[1] * grid[2],
            total_q=tokens,
            query_exponent=query_exponent,
        )
        function = build(build_attention_dense(spec), device_id, spec)
        self.launch = PreparedLaunch(
            function, grid, attention_dense_block(spec), ARGUMENTS,
            softmax_scale=np.float32(scale), shape=shape,
        )  # fmt: skip
        self._set_addresses = self.launch.set_addresses

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
        """Launch on the current device and stream; return out, and the LSE if the plan has one.

        This is what a repeated call costs, so it does nothing that a plan could hold. The
        addresses are those of q, k and v, which the caller has just read.
        """
        if out is None:
            out = self._empty(self.out_shape, self.out_dtype)
            at_out = out.data.ptr
        else:
            at_out = out.data.ptr
            if near(self._apart, at_out, at_q, at_k, at_v):
                check_overlap(out, q=q, k=k, v=v)
        if lengths is None:
            at_lens = at_starts_q = at_starts_k = 0
        else:
            at_lens, at_starts_q, at_starts_k = map(address, lengths)
        lse, at_lse = None, 0
        if self.lse_shape is not None:
            lse = self._empty(self.lse_shape, _FLOAT32)
            at_lse = lse.data.ptr
        self._set_addresses(
            at_q, at_k, at_v, at_out, at_starts_q, at_starts_k, at_lens, at_lse
        )  # fmt: skip
        self.launch()
        return out if lse is None else (out, lse)


def address(array: Any) -> int:
    """Return where an array starts, 0 for None."""
    return 0 if array is None else array.data.ptr


def _elements(layout: Layout) -> int:
    """Return the number of elements: how far apart the results of two splits lie."""
    total = 1
    for length in layout.shape:
        total *= length
    return total

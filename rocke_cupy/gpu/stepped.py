"""A plan with copies before the attention kernel, and a copy or a merge after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..rules.arrays import check_overlap
from ..rules.shapes import Axes
from .layout import Layout, distances, near
from .lengths import DeviceLengths
from .plan import Plan, address
from .steps import Copy, Merge

_FLOAT32 = np.dtype(np.float32)


class SteppedPlan:
    """A plan with copies before the attention kernel, and a copy or a merge after it."""

    def __init__(
        self,
        plan: Plan,
        axes: Axes,
        layouts: Mapping[str, Layout],
        fit: Mapping[str, Layout],
        splits: int,
        *,
        return_lse: bool,
    ) -> None:
        import cupy

        self.device_id = plan.device_id
        self._plan, self._splits = plan, splits
        self._empty = cupy.ndarray
        self._apart = distances(layouts)
        out, kernel_out = layouts["out"], fit["out"]
        self._out = out
        self._lse_shape = axes.lse_shape(out.shape)
        self._return_lse = return_lse
        self._before = {
            name: (_memory(fit[name]), Copy(layouts[name], _memory(fit[name]), self.device_id))
            for name in "qkv"
            if fit[name] is not layouts[name]
        }
        self._kernel_out = kernel_out
        self._after: Copy | Merge | None = None
        if splits > 1:
            lse_strides = _lse_strides(Layout.contiguous(self._lse_shape, _FLOAT32), axes)
            self._after = Merge(kernel_out, out, lse_strides, lse_strides, splits, self.device_id)
        elif kernel_out is not out:
            self._after = Copy(kernel_out, out, self.device_id)

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
        """Launch all steps on the current device and stream, as `Plan.run`."""
        if out is None:
            out = self._empty(self._out.shape, self._out.dtype)
        elif near(self._apart, address(out), at_q, at_k, at_v):
            check_overlap(out, q=q, k=k, v=v)
        q, k, v = (
            self._copied_input(name, array) for name, array in zip("qkv", (q, k, v), strict=True)
        )
        lse = self._empty(self._lse_shape, _FLOAT32) if self._return_lse else None
        if isinstance(self._after, Merge):
            self._run_splits(self._after, q, k, v, out, lse, lengths)
        elif self._after is None:
            self._launch(q, k, v, out, lse, lengths)
        else:
            result = self._empty(self._kernel_out.shape, self._kernel_out.dtype)
            self._launch(q, k, v, result, lse, lengths)
            self._after.run(result, out)
        return (out, lse) if self._return_lse else out

    def _launch(
        self, q: Any, k: Any, v: Any, out: Any, lse: Any, lengths: DeviceLengths | None
    ) -> None:
        kv_lens, starts_q, starts_k = lengths or (None, None, None)
        launch = self._plan.launch
        launch.set_addresses(*map(address, (q, k, v, out, starts_q, starts_k, kv_lens, lse)))
        launch()

    def _copied_input(self, name: str, array: Any) -> Any:
        if name not in self._before:
            return array
        memory, copy = self._before[name]
        packed = self._empty(memory.shape, memory.dtype)
        copy.run(array, packed)
        return packed

    def _run_splits(
        self,
        merge: Merge,
        q: Any,
        k: Any,
        v: Any,
        out: Any,
        lse: Any,
        lengths: DeviceLengths | None,
    ) -> None:
        outs = self._empty((self._splits, *self._kernel_out.shape), _FLOAT32)
        lses = self._empty((self._splits, *self._lse_shape), _FLOAT32)
        self._launch(q, k, v, outs, lses, lengths)
        merge.run(_addresses(outs), _addresses(lses), out, lse)


def _memory(layout: Layout) -> Layout:
    """Return the part of a packed layout that has memory of its own."""
    shape = [
        1 if stride == 0 else n for n, stride in zip(layout.shape, layout.strides, strict=True)
    ]
    return Layout.contiguous(shape, layout.dtype)


def _lse_strides(lse: Layout, axes: Axes) -> list[int]:
    """Return an LSE's strides in the order of the axes of its result."""
    strides = dict(
        zip([a for a in (axes.batch, axes.head, axes.token) if a >= 0], lse.strides, strict=True)
    )
    return [strides[axis] for axis in sorted(strides)]


def _addresses(parts: Any) -> list[int]:
    return [parts.data.ptr + i * parts.strides[0] for i in range(parts.shape[0])]

"""What a call does beside the attention kernel: copies into another layout, and merges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernels.build import build
from ..kernels.rows import (
    LANES,
    MERGE_PARTS,
    copy_kernel,
    copy_shape,
    merge_kernel,
    merge_shape,
)
from .layout import Layout

_BLOCK = (LANES, 1, 1)


class Copy:
    """A copy between two layouts: other strides, another dtype, a longer or shorter last axis."""

    def __init__(self, source: Layout, destination: Layout, device_id: int) -> None:
        kernel = copy_kernel(source.dtype, destination.dtype)
        self._launch = build(kernel, device_id, f"a copy from {source} to {destination}")
        self._grid, self._shape = copy_shape(source, destination)

    def run(self, source: Any, destination: Any) -> None:
        """Launch on the current stream."""
        self._launch(self._grid, _BLOCK, (source, destination, self._shape))


class Merge:
    """The merge of attention results over disjoint keys, all of one layout."""

    def __init__(
        self,
        part: Layout,
        out: Layout,
        part_lse: Sequence[int],
        lse: Sequence[int],
        parts: int,
        device_id: int,
    ) -> None:
        kernel = merge_kernel(part.dtype, out.dtype)
        self._launch = build(kernel, device_id, f"a merge of {parts} results {part} into {out}")
        self._grid, self._shape = merge_shape(part, out, part_lse, lse, parts)

    def run(self, outs: Sequence[int], lses: Sequence[int], out: Any, lse: Any) -> None:
        """Launch on the current stream; ``outs`` and ``lses`` are the addresses of the parts."""
        table = np.zeros((), MERGE_PARTS)
        table["out"][: len(outs)], table["lse"][: len(lses)] = outs, lses
        self._launch(self._grid, _BLOCK, (out, lse, self._shape, table[()]))

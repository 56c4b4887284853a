"""Copies of strided arrays on the GPU: casts, padding and layouts, by ``kernels_src/convert``.

The kernels walk over the rows of an array, its last axis, numbered over three axes. The structures
are those of ``kernels_src/common/rows.h``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._arch import COMPUTE_UNITS
from ._build import OPTIONS, KernelSource
from ._dtypes import BFLOAT16, FLOAT16
from ._source import translation_unit

ROW_STRIDES = np.dtype([("axis", np.int64, 3), ("column", np.int64)], align=True)
ROW_COUNT = np.dtype([("count", np.int32, 3), ("tile_log2", np.int32)], align=True)
COPY_SHAPE = np.dtype(
    [
        ("from", ROW_STRIDES),
        ("to", ROW_STRIDES),
        ("rows", ROW_COUNT),
        *((name, np.int32) for name in ("from_columns", "to_columns", "rows_first", "reserved")),
    ],
    align=True,
)

KINDS = {BFLOAT16: 0, FLOAT16: 1, np.dtype(np.float32): 2, np.dtype(np.float64): 3}
"""Element types by the numbers of ``ElementKind``."""

LANES = 256
"""Of a workgroup."""

COLUMNS_PER_LANE = 8

_TILE_PIECES_LOG2 = 10
"""A workgroup takes so many pieces of eight columns at a time: four for each lane."""

_WORKGROUPS = 16 * COMPUTE_UNITS
"""Enough to fill the GPU; they stride over the rest."""


class Walk(NamedTuple):
    """The rows of arrays of one shape in the order in which a kernel takes them."""

    axes: tuple[int, ...]
    """The three outer axes, outermost first; -1 is one that the arrays do not have."""
    count: np.ndarray
    """The ``RowCount`` argument."""
    grid: tuple[int, int, int]

    @classmethod
    def over(cls, shape: Sequence[int], columns: int, *strides: Sequence[int]) -> Walk:
        """Return the walk whose neighbours in number are neighbours in memory.

        Parameters
        ----------
        shape : sequence of int
            Of the arrays; the last axis, the columns, does not count here.
        columns : int
            Those of the array that is written.
        *strides : sequence of int
            In bytes, of each array.
        """
        outer = range(len(shape) - 1)
        axes = sorted(outer, key=lambda axis: -sum(abs(s[axis]) for s in strides))
        padded = (*(-1 for _ in range(3 - len(axes))), *axes)
        pieces = -(-columns // COLUMNS_PER_LANE)
        tile_log2 = max(_TILE_PIECES_LOG2 + 1 - pieces.bit_length(), 0)
        count = np.zeros((), ROW_COUNT)
        count["count"] = [1 if axis < 0 else shape[axis] for axis in padded]
        count["tile_log2"] = tile_log2
        rows = int(np.prod([int(n) for n in count["count"]], dtype=object))
        tiles = -(-rows >> tile_log2)
        return cls(padded, count[()], (max(1, min(tiles, _WORKGROUPS)), 1, 1))

    def strides(self, strides: Sequence[int]) -> np.ndarray:
        """Return the ``RowStrides`` argument of an array with ``strides``, in bytes."""
        result = np.zeros((), ROW_STRIDES)
        result["axis"] = [0 if axis < 0 else strides[axis] for axis in self.axes]
        result["column"] = strides[-1]
        return result[()]


@functools.cache
def copy_kernel(source: np.dtype, destination: np.dtype) -> KernelSource:
    """Return the kernel that copies from one dtype to another, rounding to nearest even."""
    entry = f"rocke_pack_{source.name}_to_{destination.name}"
    constants = {"from": KINDS[source], "to": KINDS[destination]}
    return KernelSource(
        entry, translation_unit("convert/pack.hip", "ROCKE_PACK", entry, constants), OPTIONS
    )


def copy_shape(source: Any, destination: Any) -> tuple[tuple[int, int, int], np.ndarray]:
    """Return the grid and the ``CopyShape`` argument of a copy.

    Parameters
    ----------
    source, destination : array
        Anything with shape and strides; up to four dimensions, equal but for the last. Columns
        that the source does not have become 0, those that the destination lacks are dropped.
    """
    walk = Walk.over(destination.shape, destination.shape[-1], source.strides, destination.strides)
    shape = np.zeros((), COPY_SHAPE)
    shape["rows"] = walk.count
    rows_first = False
    for name, array in (("from", source), ("to", destination)):
        shape[name] = walk.strides(array.strides)
        shape[f"{name}_columns"] = array.shape[-1]
        row_step, column_step = abs(int(shape[name]["axis"][-1])), abs(array.strides[-1])
        rows_first |= 0 < row_step < column_step
    shape["rows_first"] = rows_first
    return walk.grid, shape[()]

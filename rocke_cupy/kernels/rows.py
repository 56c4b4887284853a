"""Kernels that walk over the rows of strided arrays: copies with casts and padding, and merges.

A row is an array's last axis; rows are numbered over up to three outer axes. The structures are
those of ``kernels_src/common/rows.h`` and of the two kernels.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arch import COMPUTE_UNITS
from ..rules.dtypes import BFLOAT16, FLOAT16
from .build import OPTIONS, KernelSource
from .layouts import structure
from .source import translation_unit

ROW_STRIDES = structure("common/rows.h", "RowStrides")
ROW_COUNT = structure("common/rows.h", "RowCount")
COPY_SHAPE = structure("convert/pack.hip", "CopyShape")
MERGE_SHAPE = structure("attention/merge_states.hip", "MergeShape")
MERGE_PARTS = structure("attention/merge_states.hip", "MergeParts")
"""This holds the addresses of the results that are merged, and of their LSEs."""

KINDS = {BFLOAT16: 0, FLOAT16: 1, np.dtype(np.float32): 2, np.dtype(np.float64): 3}
"""Element types by the numbers of ``ElementKind``."""

LANES = 256
"""A workgroup has so many lanes."""

COLUMNS_PER_LANE = 8

_TILE_PIECES_LOG2 = 10
"""A workgroup takes so many pieces of eight columns at a time: four for each lane."""

_WORKGROUPS = 16 * COMPUTE_UNITS
"""Enough to fill the GPU; they stride over the rest."""


class Walk(NamedTuple):
    """The rows of arrays of one shape in the order in which a kernel takes them."""

    axes: tuple[int, ...]
    """The three outer axes, outermost first; -1 is one that the arrays do not have."""
    rows: np.ndarray
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
    return _kernel("convert/pack.hip", "pack", source, destination)


@functools.cache
def merge_kernel(part: np.dtype, out: np.dtype) -> KernelSource:
    """Return the kernel that merges parts of one dtype into a result of another."""
    return _kernel("attention/merge_states.hip", "merge_states", part, out)


def _kernel(file: str, name: str, source: np.dtype, destination: np.dtype) -> KernelSource:
    entry = f"rocke_{name}_{source.name}_to_{destination.name}"
    constants = {"from": KINDS[source], "to": KINDS[destination]}
    code = translation_unit(file, f"ROCKE_{name.upper()}", entry, constants)
    return KernelSource(entry, code, OPTIONS)


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
    shape["rows"] = walk.rows
    rows_first = False
    for name, array in (("from", source), ("to", destination)):
        shape[name] = walk.strides(array.strides)
        shape[f"{name}_columns"] = array.shape[-1]
        row_step, column_step = abs(int(shape[name]["axis"][-1])), abs(array.strides[-1])
        rows_first |= 0 < row_step < column_step
    shape["rows_first"] = rows_first
    return walk.grid, shape[()]


def merge_shape(
    part: Any, out: Any, part_lse: Sequence[int], lse: Sequence[int], parts: int
) -> tuple[tuple[int, int, int], np.ndarray]:
    """Return the grid and the ``MergeShape`` argument of a merge.

    Parameters
    ----------
    part, out : array
        One of the parts, all of which have the same strides, and the result: anything with shape
        and strides. The parts may have more columns than the result, which are ignored.
    part_lse, lse : sequence of int
        Strides in bytes of the LSEs, for the outer axes of `out` in their order.
    parts : int
    """
    walk = Walk.over(out.shape, out.shape[-1], part.strides, out.strides)
    shape = np.zeros((), MERGE_SHAPE)
    shape["rows"] = walk.rows
    shape["part"], shape["out"] = walk.strides(part.strides), walk.strides(out.strides)
    # An LSE has no columns: any stride does for them.
    shape["part_lse"], shape["lse"] = walk.strides((*part_lse, 0)), walk.strides((*lse, 0))
    shape["part_columns"], shape["out_columns"] = part.shape[-1], out.shape[-1]
    shape["parts"] = parts
    return walk.grid, shape[()]

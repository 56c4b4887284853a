"""Shape, dtype and strides of arrays, which need not exist yet, and which of them may overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np


class Layout(NamedTuple):
    """Shape, dtype and strides of an array, which need not exist yet."""

    shape: tuple[int, ...]
    dtype: np.dtype
    strides: tuple[int, ...]

    @classmethod
    def of(cls, array: Any) -> Layout:
        """Return the layout of an array."""
        return cls(array.shape, array.dtype, array.strides)

    @classmethod
    def contiguous(cls, shape: Sequence[int], dtype: np.dtype) -> Layout:
        """Return the layout of a fresh, contiguous array."""
        steps = [dtype.itemsize]
        for length in reversed(shape[1:]):
            steps.append(steps[-1] * length)
        return cls(tuple(shape), dtype, tuple(reversed(steps)))

    def alike(self, shape: Sequence[int]) -> Layout:
        """Return the layout with axes of one element repeated to ``shape``."""
        strides = [
            0 if n != m else s for n, m, s in zip(self.shape, shape, self.strides, strict=True)
        ]
        return Layout(tuple(shape), self.dtype, tuple(strides))


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

"""Kernel arguments in their exact C types: the structures of ``kernels_src/common/arguments.h``."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ..rules.masks import Masks

_STRIDES = np.dtype([("batch", np.int64), ("token", np.int64), ("head", np.int64)], align=True)

SHAPE = np.dtype(
    [
        *((name, _STRIDES) for name in ("q", "k", "v", "o")),
        *((name, np.int64) for name in ("lse_batch", "lse_head", "o_split", "lse_split")),
        *((name, np.int32) for name in ("batch", "seqlen_q", "seqlen_kv")),
        *((name, np.int32) for name in ("query_heads", "kv_heads")),
        *((name, np.int32) for name in ("window_left", "window_right", "top_left")),
        *((name, np.int32) for name in ("num_splits", "num_workgroups", "total_q")),
        ("query_exponent", np.int32),
    ],
    align=True,
)
"""``struct Shape``: everything that may differ between two calls of one binary."""


def element_strides(array: Any, axes: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return the strides of an array's batch, token and head axes, in elements.

    An axis of one element, or one that is not there (-1), is never stepped over: its stride is 0.
    """
    strides = []
    for axis in axes:
        if axis < 0 or array.shape[axis] <= 1:
            strides.append(0)
        else:
            strides.append(array.strides[axis] // array.dtype.itemsize)
    return strides[0], strides[1], strides[2]


def split_scale(scale: float) -> tuple[float, int]:
    """Return a scale of 2**-120 at least, or 0, and ``query_exponent``, the rest of it.

    Float32 arithmetic takes a scale below 2**-126 as 0, and a little above it, scores that are
    finite may be further apart than float32 reaches. So a power of two goes into q.
    """
    exponent = min(math.frexp(scale)[1] + 119, 0) if scale else 0
    return math.ldexp(scale, -exponent), exponent


_SHAPE_FORMAT = struct.Struct("16q12i")
_NUMBERS = tuple(name for name in SHAPE.names or () if SHAPE[name] != _STRIDES)


def pack_shape(
    *,
    strides: Mapping[str, tuple[int, int, int]],
    masks: Masks,
    **numbers: int,
) -> Any:
    """Return the ``Shape`` argument, a NumPy scalar; fields that are not named stay zero."""
    numbers.update(window_left=masks.left, window_right=masks.right, top_left=masks.top_left)
    values = [number for name in "qkvo" for number in strides[name]]
    values += [numbers.pop(name, 0) for name in _NUMBERS]
    if numbers:
        raise TypeError(f"the Shape has no field {', '.join(numbers)}")
    # A decoding loop has a new shape at each step, and NumPy's way, field by field, is slow.
    return np.frombuffer(_SHAPE_FORMAT.pack(*values), SHAPE)[0]


class PreparedLaunch:
    """A launch of the attention kernel whose arguments lie ready in memory, but for the pointers.

    CuPy converts each argument at each launch, which takes twice as long as the launch itself.
    Here the values are converted once; a call writes eight addresses and hands the driver the
    same table of arguments.
    """

    def __init__(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        scale: float,
        shape: Any,
    ) -> None:
        import cupy

        self.function, self.grid, self.block = function, grid, block
        self.scale, self.shape = np.float32(scale), shape
        memory = np.zeros(_ARGUMENTS.itemsize, np.uint8)
        start = memory.ctypes.data
        self._memory = memory.data
        at = {name: start + field[1] for name, field in _ARGUMENTS_FIELDS.items()}
        pointers = [at["pointers"] + 8 * i for i in range(8)]
        values = memory.view(_ARGUMENTS)[0]
        values["scale"], values["shape"] = self.scale, shape
        values["table"] = [*pointers[:4], at["scale"], *pointers[4:], at["shape"]]
        self._table_address = at["table"]
        self._launch = partial(cupy.cuda.driver.launchKernel, function.ptr, *grid, *block, 0)
        self._stream = cupy.cuda.get_current_stream

    def __call__(
        self, q: int, k: int, v: int, out: int, cu_q: int, cu_kv: int, kv_lens: int, lse: int
    ) -> None:
        """Launch on the current stream; the pointers are addresses, 0 for one that is not there.

        The driver has copied the arguments when it returns. Not for two threads at once.
        """
        _write_pointers(self._memory, 0, q, k, v, out, cu_q, cu_kv, kv_lens, lse)
        self._launch(self._stream().ptr, self._table_address, 0)


_write_pointers = struct.Struct("8Q").pack_into

_ARGUMENTS = np.dtype(
    [("pointers", np.uint64, 8), ("table", np.uint64, 10), ("shape", SHAPE), ("scale", np.float32)],
    align=True,
)
"""The argument values of a launch, and the table of their addresses that the driver takes."""

_ARGUMENTS_FIELDS = dict(_ARGUMENTS.fields or {})

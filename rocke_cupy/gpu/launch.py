"""Kernel arguments in their exact C types, and launches that hold them ready."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ..kernels.layouts import structure
from ..rules.masks import Masks

_FILE = "common/arguments.h"
_STRIDES, _DIVISOR, SHAPE, ARGUMENTS = (
    structure(_FILE, name) for name in ("Strides", "Divisor", "Shape", "Arguments")
)
"""``struct Shape``: everything that may differ between two calls of one binary but for arrays and
scale. ``struct Arguments``: all parameters of the forward kernels.
"""


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


def divisor(value: int) -> tuple[int, int, int]:
    """Return the fields of ``struct Divisor``: the value, its reciprocal, and that one's scale.

    The multiplier is (2**(31 + shift) + r) / value with r < value <= 2**shift. So for n < 2**31,
    n * multiplier / 2**(31 + shift) exceeds n / value by n * r / 2**(31 + shift) / value, which is
    below 1 / value: too little to reach the next whole number.
    """
    shift = max(value - 1, 0).bit_length()
    return value, -(-(1 << 31 + shift) // max(value, 1)), shift


_NUMBERS = tuple(name for name in SHAPE.names or () if SHAPE[name] != _STRIDES)
_DIVISORS = frozenset(name for name in _NUMBERS if SHAPE[name] == _DIVISOR)
_SHAPE_FORMAT = struct.Struct(
    "12q" + "".join("iIi" if name in _DIVISORS else SHAPE[name].char for name in _NUMBERS) + "0q"
)


def pack_shape(
    *,
    strides: Mapping[str, tuple[int, int, int]],
    masks: Masks,
    **numbers: int,
) -> Any:
    """Return the ``Shape`` argument, a NumPy scalar; fields that are not named stay zero."""
    numbers.update(window_left=masks.left, window_right=masks.right, top_left=masks.top_left)
    values = [number for name in "qkvo" for number in strides[name]]
    for name in _NUMBERS:
        number = numbers.pop(name, 0)
        values += divisor(number) if name in _DIVISORS else (number,)
    if numbers:
        raise TypeError(f"the Shape has no field {', '.join(numbers)}")
    # A decoding loop has a new shape at each step, and NumPy's way, field by field, is slow.
    return np.frombuffer(_SHAPE_FORMAT.pack(*values), SHAPE)[0]


class PreparedLaunch:
    """A launch of a kernel whose arguments lie ready in memory, but for the pointers.

    CuPy converts each argument at each launch, which takes twice as long as the launch itself.
    Here the values are converted once; a call writes the addresses and hands the driver the same
    table of arguments.

    Parameters
    ----------
    function : cupy.cuda.Function
    grid, block : tuple of int
    arguments : numpy.dtype
        The kernel's parameters, in order.
    **values
        Those parameters that are no pointers.

    Attributes
    ----------
    set_addresses : callable
        Takes the addresses of the pointers, in order; 0 is one that is not there.
    """

    def __init__(
        self,
        function: Any,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        arguments: np.dtype,
        **values: Any,
    ) -> None:
        import cupy

        self.function, self.grid, self.block, self.values = function, grid, block, values
        # The pointers come first, so that one call writes them all.
        names = [name for name in arguments.names or () if name not in values]
        names += values
        layout = np.dtype(
            [(name, arguments[name]) for name in names] + [("table", np.uint64, len(names))],
            align=True,
        )
        memory = np.zeros(layout.itemsize, np.uint8)
        start = memory.ctypes.data
        at = {name: start + field[1] for name, field in (layout.fields or {}).items()}
        held = memory.view(layout)[0]
        for name, value in values.items():
            held[name] = value
        held["table"] = [at[name] for name in arguments.names or ()]
        pointers = len(names) - len(values)
        self.set_addresses = partial(struct.Struct(f"{pointers}Q").pack_into, memory.data, 0)
        self._table_address = at["table"]
        self._launch = partial(cupy.cuda.driver.launchKernel, function.ptr, *grid, *block, 0)
        self._stream = cupy.cuda.get_current_stream

    def __call__(self) -> None:
        """Launch on the current stream with the addresses that were set last.

        The driver has copied the arguments when it returns. Not for two threads at once.
        """
        self._launch(self._stream().ptr, self._table_address, 0)

"""Rules on arrays as such: whose they are, on which device, and where results may be stored."""

from __future__ import annotations

import sys
from typing import Any, TypeVar

import numpy as np

Array = TypeVar("Array")
"""The type of a caller's arrays, NumPy's or CuPy's, for signatures; CuPy has no types."""


def cupy_array_type() -> type | None:
    """Return ``cupy.ndarray`` if there is one, without importing CuPy.

    ``sys.modules`` may hold a stub, a mock or a CuPy whose import has not ended.
    """
    kind = getattr(sys.modules.get("cupy"), "ndarray", None)
    return kind if isinstance(kind, type) else None


def is_cupy(array: Any) -> bool:
    """Return whether ``array`` is CuPy's."""
    kind = cupy_array_type()
    return kind is not None and isinstance(array, kind) and not isinstance(array, np.ndarray)


def host_copy(array: Any) -> np.ndarray:
    """Return a copy of a CuPy array on the host, or the NumPy array itself."""
    return array.get() if is_cupy(array) else array


def is_array(array: Any) -> bool:
    """Return whether ``array`` is one of NumPy's or CuPy's whose elements mean what they hold."""
    if isinstance(array, np.ma.MaskedArray | np.matrix):
        return False
    return isinstance(array, np.ndarray) or is_cupy(array)


def check_library(*optional: str, **arrays: Any) -> bool:
    """Return whether the arrays are CuPy's (all) rather than NumPy's (all).

    Those named as ``optional`` may be None.
    """
    first = ""
    on_gpu = False
    for name, array in arrays.items():
        if array is None and name in optional:
            continue
        if not is_array(array):
            raise TypeError(
                f"{name} must be a numpy.ndarray or a cupy.ndarray, not {type(array).__name__}"
            )
        gpu = is_cupy(array)
        if not first:
            first, on_gpu = name, gpu
        elif gpu != on_gpu:
            kinds = ("numpy", "cupy") if gpu else ("cupy", "numpy")
            raise TypeError(
                f"{first} is a {kinds[0]} array and {name} a {kinds[1]} array: all must be of one "
                "library, nothing is copied to or from the GPU on the way"
            )
    return on_gpu


def check_devices(**arrays: Any) -> None:
    """Raise ValueError unless all CuPy arrays are on one device; None is skipped."""
    devices = {name: array.device.id for name, array in arrays.items() if array is not None}
    first = next(iter(devices))
    for name, device in devices.items():
        if device != devices[first]:
            raise ValueError(
                f"{first} is on device {devices[first]} and {name} on device {device}: all must "
                "be on one"
            )


def check_out(out: Any, q: Any) -> None:
    """Check the array that the result goes into, except for where it lies in memory."""
    if out.shape != q.shape:
        turned = out.ndim == q.ndim == 4 and out.shape == tuple(q.shape[i] for i in (0, 2, 1, 3))
        hint = ": its axes are in the order of the other layout" if turned else ""
        raise ValueError(f"out.shape={out.shape} must equal q.shape={q.shape}{hint}")
    if out.dtype != q.dtype and not (out.dtype == np.float32 and q.dtype.itemsize == 2):
        or_wide = ", or be float32" if q.dtype.itemsize == 2 else ""
        raise TypeError(f"out.dtype={out.dtype} must equal q.dtype={q.dtype}{or_wide}")
    check_out_memory(out)


def check_out_memory(out: Any) -> None:
    """Check that each element of ``out`` can be written, and lies somewhere of its own."""
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out must be writeable, it is a read-only array")
    if _repeats(out):
        raise ValueError(
            f"out.strides={out.strides} with out.shape={out.shape} place several elements at one "
            "address, as a broadcast array does: each needs its own"
        )


def _repeats(array: Any) -> bool:
    """Return whether two elements may share memory: some axis does not step over the smaller."""
    reach = array.dtype.itemsize
    axes = [(abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1]
    for stride, length in sorted(axes):
        if stride < reach:
            return 0 not in array.shape
        reach += stride * (length - 1)
    return False


def check_overlap(out: Any, **inputs: Any) -> None:
    """Raise ValueError if an element of ``out`` lies in an input; None overlaps nothing."""
    if out is None:
        return
    for name, array in inputs.items():
        if _share_memory(out, array):
            raise ValueError(
                f"out overlaps {name}: {name} is still read while out is written, so out needs "
                "memory of its own"
            )


class _AtAddress:
    """Stands for a device array in NumPy's exact overlap test, which reads no element."""

    def __init__(self, array: Any, address: int) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": array.shape,
            "strides": array.strides,
            "typestr": f"|V{array.dtype.itemsize}",
            "version": 3,
        }


def _share_memory(a: Any, b: Any) -> bool:
    if is_cupy(a):
        if not sys.modules["cupy"].may_share_memory(a, b):
            return False
        a, b = (np.asarray(_AtAddress(x, x.data.ptr)) for x in (a, b))
    if not np.may_share_memory(a, b):
        return False
    try:
        # NumPy's stub knows only two of the values that max_work may have.
        return np.shares_memory(a, b, max_work=100_000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True

"""Executing a kernel on NumPy arrays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rocke_cupy.emulator.execution.dispatch import STACK_SIZE
from rocke_cupy.emulator.execution.launch import kernel_of, launch
from rocke_cupy.emulator.execution.memory import Buffer
from rocke_cupy.emulator.execution.placement import Placement, buffer_of
from rocke_cupy.emulator.execution.report import Report
from rocke_cupy.emulator.program import Kernel, load


def run(
    code_object: bytes | os.PathLike[str] | str,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any] | bytes,
    *,
    shared_mem: int = 0,
    stack_size: int = STACK_SIZE,
    buffers: Sequence[np.ndarray] | None = None,
    **options: Any,
) -> Report:
    """Execute a kernel of a gfx950 code object on NumPy arrays.

    Parameters
    ----------
    code_object : bytes or path
        The ELF file.
    kernel : str
        The kernel's name.
    grid, block : sequence of int
        Workgroups, and threads of a workgroup.
    args : sequence or bytes
        For each argument a NumPy array (a device buffer with exact bounds, written in place), a
        NumPy scalar or zero-dimensional value of the argument's size, or None for a null pointer.
        Or one bytes object: the argument block itself. An array is an allocation of the device and
        starts a page there, wherever it lies here (but a view that starts amid 16 bytes does so).
    shared_mem : int
        Bytes of dynamic LDS.
    stack_size : int
        Bytes of a lane's stack in kernels with recursion or calls through pointers, as
        hipLimitStackSize sets it.
    buffers : sequence of numpy.ndarray, optional
        Further memory that the kernel's pointers may reach, at its addresses in this process.
    **options
        The fields of `rocke_cupy.emulator.options.Options`.

    Returns
    -------
    Report
    """
    code = code_object if isinstance(code_object, bytes) else Path(code_object).read_bytes()
    program = load(code)
    reached = [buffer_of(f"buffers[{k}]", array) for k, array in enumerate(buffers or ())]
    if isinstance(args, bytes):
        kernarg, placement = args, Placement(reached)
    else:
        kernarg, placement = _pack(kernel_of(program, kernel), args, reached)
    return launch(
        program, kernel, grid, block, kernarg, placement.buffers,
        shared_mem=shared_mem, stack_size=stack_size, **options,
    )  # fmt: skip


def _pack(kernel: Kernel, args: Sequence[Any], further: list[Buffer]) -> tuple[bytes, Placement]:
    """Return the argument block, and where the arrays in it and `further` memory lie."""
    explicit = kernel.explicit_arguments
    if len(args) != len(explicit):
        raise ValueError(f"kernel {kernel.name} takes {len(explicit)} arguments, got {len(args)}")
    names = [a.name or f"args[{number}]" for number, a in enumerate(explicit)]
    own = [buffer_of(n, v) for n, v in zip(names, args, strict=True) if _is_buffer(v)]
    placement = Placement([*own, *further])
    block = bytearray(kernel.kernarg_size)
    for name, argument, value in zip(names, explicit, args, strict=True):
        data = _argument_bytes(name, value, placement)
        if len(data) != argument.size:
            raise ValueError(
                f"{name} has {len(data)} bytes; kernel {kernel.name} takes {argument.size}"
            )
        block[argument.offset : argument.offset + argument.size] = data
    return bytes(block), placement


def _is_buffer(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _argument_bytes(name: str, value: Any, placement: Placement) -> bytes:
    if value is None:
        return bytes(8)
    if _is_buffer(value):
        return placement[value.ctypes.data].to_bytes(8, "little")
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return value.tobytes()
    raise TypeError(
        f"{name}={value!r} must be a NumPy array, a NumPy scalar, bytes or None: "
        "its size is what the kernel reads"
    )

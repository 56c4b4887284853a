"""Launches on the virtual device: what the emulator is given."""

from __future__ import annotations

import ctypes
from bisect import bisect_right
from dataclasses import replace
from typing import Any

from rocke_cupy.emulator.device import hip_abi as abi
from rocke_cupy.emulator.device import settings
from rocke_cupy.emulator.device.modules import module
from rocke_cupy.emulator.device.progress import Progress
from rocke_cupy.emulator.execution.launch import launch as execute
from rocke_cupy.emulator.execution.memory import Buffer
from rocke_cupy.emulator.program import Kernel


def launch(pointer: Any) -> None:
    """Execute the launch at a pointer."""
    request = pointer.contents
    found = module(request.module)
    name = found.kernels[request.kernel]
    program = found.loaded.program_of(name)
    kernel = program.kernels[name]
    kernarg = _kernarg(kernel, request)
    with Progress(name) as progress:
        report = execute(
            program,
            name,
            tuple(request.grid),
            tuple(request.block),
            kernarg,
            _buffers(request.device, kernel, kernarg),
            shared_mem=request.shared_bytes,
            stack_size=request.stack_bytes,
            progress=progress,
            **vars(settings.options()),
        )
    settings.reports.append(report)


def _kernarg(kernel: Kernel, request: abi.LaunchRequest) -> bytes:
    """Return the kernel argument block, in which the hidden arguments are still empty."""
    block = bytearray(kernel.kernarg_size)
    explicit = kernel.explicit_arguments
    if request.packed:
        size = min(request.packed_bytes, len(block))
        block[:size] = ctypes.string_at(request.packed, size)
    elif request.arguments:
        for argument, source in zip(explicit, request.arguments, strict=False):
            value = ctypes.string_at(source, argument.size)
            block[argument.offset : argument.offset + argument.size] = value
    elif explicit:
        raise abi.Refused(
            abi.INVALID_VALUE, f"the launch has no arguments, {len(explicit)} expected"
        )
    return bytes(block)


_buffer_cache: dict[int, tuple[int, list[Buffer]]] = {}


def _buffers(device: int, kernel: Kernel, kernarg: bytes) -> list[Buffer]:
    """Return the memory that a launch may touch, named by the arguments that point to it."""
    version = abi.runtime().rocke_allocations_version(device)
    if _buffer_cache.get(device, (None,))[0] != version:
        _buffer_cache[device] = _list_allocations(device)
    buffers = list(_buffer_cache[device][1])
    starts = [buffer.address for buffer in buffers]
    for number, argument in enumerate(kernel.arguments):
        if argument.kind != "global_buffer":
            continue
        address = int.from_bytes(kernarg[argument.offset : argument.offset + 8], "little")
        index = bisect_right(starts, address) - 1
        if index >= 0 and address < starts[index] + buffers[index].size:
            buffers[index] = replace(buffers[index], name=f"argument {number}")
    return buffers


def _list_allocations(device: int) -> tuple[int, list[Buffer]]:
    version = ctypes.c_uint64()
    capacity = abi.runtime().rocke_allocations(None, 0, device, version)
    while True:
        table = (abi.Allocation * max(1, capacity))()
        count = abi.runtime().rocke_allocations(table, capacity, device, version)
        if count <= capacity:
            break
        capacity = count
    buffers = [
        Buffer(entry.address, entry.size, f"allocated at {entry.address:#x}")
        for entry in table[:count]
    ]
    return version.value, buffers

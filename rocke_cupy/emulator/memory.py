"""Device memory of a launch: bounded buffers, kernel arguments, the user registers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocke_cupy.emulator.code_object import Kernel


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel may access, at its real address.

    Attributes
    ----------
    address, size : int
        Where it starts, and its bytes.
    name : str
        For messages.
    writable : bool
        Whether stores are allowed.
    """

    address: int
    size: int
    name: str
    writable: bool = True


class BufferTable:
    """Buffers sorted by address, as the core searches them."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = sorted((b for b in buffers if b.size), key=lambda b: b.address)
        self.start = np.array([b.address for b in self.buffers], np.uint64)
        self.end = np.array([b.address + b.size for b in self.buffers], np.uint64)
        self.writable = np.array([b.writable for b in self.buffers], np.uint8)
        for low, high in zip(self.buffers, self.buffers[1:], strict=False):
            if low.address + low.size > high.address:
                raise ValueError(f"buffers {low.name} and {high.name} overlap")

    def explain(self, address: int) -> str:
        """Say where an address lies: in, before or past the nearest buffer."""
        if not self.buffers:
            return f"address {address:#x}, and there are no buffers"
        nearest = min(
            self.buffers, key=lambda b: max(b.address - address, address - b.address - b.size)
        )
        offset = address - nearest.address
        what = f"buffer {nearest.name} of {nearest.size} bytes"
        if offset < 0:
            return f"at {-offset} bytes before {what}"
        if offset >= nearest.size:
            return f"at offset {offset} of {what}, {offset - nearest.size} bytes past its end"
        if not nearest.writable:
            return f"at offset {offset} of {what}, which is read-only"
        return f"at offset {offset} of {what}, running past its end"


# ---- kernel arguments ----


def fill_hidden(
    kernel: Kernel,
    kernarg: bytes,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_mem: int,
) -> bytes:
    """Complete an argument block with what the runtime adds behind the user's arguments.

    Parameters
    ----------
    kernel : Kernel
        Its metadata says what goes where.
    kernarg : bytes
        The user's arguments, in the kernel's layout.
    grid, block : tuple of int
        Workgroups, and threads of one.
    shared_mem : int
        Bytes of dynamic LDS.
    """
    explicit = max(
        (a.offset + a.size for a in kernel.arguments if not a.kind.startswith("hidden_")), default=0
    )
    if len(kernarg) < explicit:
        raise ValueError(
            f"kernel {kernel.name} takes {explicit} bytes of arguments, got {len(kernarg)}"
        )
    block_of_bytes = bytearray(kernarg.ljust(kernel.kernarg_size, b"\0"))
    values: dict[str, int] = {"hidden_grid_dims": sum(n > 1 for n in grid) or 1}
    for axis, name in enumerate("xyz"):
        values[f"hidden_block_count_{name}"] = grid[axis]
        values[f"hidden_group_size_{name}"] = block[axis]
        values[f"hidden_remainder_{name}"] = 0
    values["hidden_dynamic_lds_size"] = shared_mem
    values["hidden_private_base"] = 0x20000
    values["hidden_shared_base"] = 0x10000
    for argument in kernel.arguments:
        if argument.kind in values:
            data = values[argument.kind].to_bytes(argument.size, "little")
            block_of_bytes[argument.offset : argument.offset + argument.size] = data
    return bytes(block_of_bytes)


def dispatch_packet(
    kernel: Kernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    lds_size: int,
    kernarg: int,
) -> bytes:
    """The AQL packet that a kernel may read its launch shape from."""
    threads = [g * b for g, b in zip(grid, block, strict=True)]
    return struct.pack(
        "<HHHHHHIIIIIQQQQ",
        0, 3, *block, 0, *threads, kernel.scratch_size, lds_size, 0, kernarg, 0, 0,
    )  # fmt: skip


def initial_scalars(
    kernel: Kernel, kernarg: np.ndarray, packet: np.ndarray, poison: int
) -> tuple[np.ndarray, list[int]]:
    """Scalar registers at the start of a wave, and which of them hold the workgroup ids.

    Parameters
    ----------
    kernel : Kernel
    kernarg, packet : numpy.ndarray
        Argument block and dispatch packet, in memory that stays alive.
    poison : int
        What the other registers hold.
    """
    scalars = np.full(128, poison, np.uint32)
    scalars[102:106] = 0
    scalars[108:124] = 0
    place = 0

    def put(*values: int) -> None:
        nonlocal place
        for value in values:
            scalars[place] = value & 0xFFFFFFFF
            place += 1

    def put_address(array: np.ndarray) -> None:
        put(array.ctypes.data, array.ctypes.data >> 32)

    def enabled(bit: int) -> int:
        return kernel.properties >> bit & 1

    if enabled(0):
        put(0, 0, 0, 0)  # private segment buffer: gfx950 has flat scratch instead
    if enabled(1):
        put_address(packet)
    if enabled(2):
        put(0, 0)  # queue pointer
    if enabled(3):
        put_address(kernarg)
    if enabled(4):
        put(0, 0)  # dispatch id
    if enabled(5):
        put(0, 0)  # flat scratch
    if enabled(6):
        put(kernel.scratch_size)
    words = kernarg.view(np.uint32)
    put(*words[kernel.preload_offset : kernel.preload_offset + kernel.preload_length].tolist())
    place = max(place, kernel.user_sgprs)
    ids = []
    for used in kernel.workgroup_ids:
        ids.append(place if used else -1)
        place += used
    return scalars, ids

"""One launch as the device gets it: shape, argument block, packet, first registers."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rocke_cupy.emulator.core.gfx950 import (
    FLAT_SCRATCH,
    LANES,
    LDS_BYTES,
    M0,
    POISON,
    PRIVATE_BASE,
    SGPRS,
    SHARED_BASE,
    VCC,
)
from rocke_cupy.emulator.program import Kernel

STACK_SIZE = 1024
"""Bytes of a lane's stack unless hipLimitStackSize is set (clr's stack_size_)."""

_LARGEST_STACK = 16 << 10


@dataclass(frozen=True)
class Dispatch:
    """A launch of a kernel.

    Attributes
    ----------
    kernel : Kernel
    grid, block : tuple of int
        Workgroups, and threads of one.
    shared_mem : int
        Bytes of dynamic LDS.
    scratch_size : int
        Bytes of scratch of a lane.
    """

    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_mem: int
    scratch_size: int

    @classmethod
    def checked(
        cls,
        kernel: Kernel,
        grid: Sequence[int],
        block: Sequence[int],
        shared_mem: int,
        stack_size: int,
    ) -> Dispatch:
        """Make a launch of what a caller gives, and refuse what a device would refuse."""
        dispatch = cls(
            kernel,
            _three("grid", grid),
            _three("block", block),
            shared_mem,
            _scratch_bytes(kernel, stack_size),
        )
        if dispatch.threads > kernel.max_workgroup:
            raise ValueError(
                f"block={dispatch.block} has {dispatch.threads} threads; kernel {kernel.name} was "
                f"compiled for at most {kernel.max_workgroup}"
            )
        if dispatch.workgroups >= 1 << 32:
            raise ValueError(f"grid={dispatch.grid} has 2**32 workgroups or more")
        if shared_mem < 0 or dispatch.lds_size > LDS_BYTES:
            raise ValueError(
                f"shared_mem={shared_mem} and {kernel.lds_size} static bytes must be "
                f"at most {LDS_BYTES}"
            )
        return dispatch

    @property
    def workgroups(self) -> int:
        """How many workgroups the grid has."""
        return math.prod(self.grid)

    @property
    def threads(self) -> int:
        """How many threads a workgroup has."""
        return math.prod(self.block)

    @property
    def waves(self) -> int:
        """How many waves a workgroup has."""
        return -(-self.threads // LANES)

    @property
    def lds_size(self) -> int:
        """How many bytes of LDS a workgroup has."""
        return self.kernel.lds_size + self.shared_mem

    def argument_block(self, kernarg: bytes, pointers: Mapping[str, int]) -> bytes:
        """Complete the user's arguments with what the runtime adds behind them.

        Parameters
        ----------
        kernarg : bytes
            The user's arguments, in the kernel's layout.
        pointers : mapping of str to int
            Addresses that stand for hidden arguments, where the kernel takes them.
        """
        kernel = self.kernel
        explicit = max((a.offset + a.size for a in kernel.explicit_arguments), default=0)
        if len(kernarg) < explicit:
            raise ValueError(
                f"kernel {kernel.name} takes {explicit} bytes of arguments, got {len(kernarg)}"
            )
        block = bytearray(kernarg.ljust(kernel.kernarg_size, b"\0"))
        values = {**self._hidden_values(), **pointers}
        for argument in kernel.arguments:
            if argument.kind in values:
                data = values[argument.kind].to_bytes(argument.size, "little")
                block[argument.offset : argument.offset + argument.size] = data
        return bytes(block)

    def _hidden_values(self) -> dict[str, int]:
        values = {
            "hidden_grid_dims": sum(n > 1 for n in self.grid) or 1,
            "hidden_dynamic_lds_size": self.shared_mem,
            "hidden_private_base": PRIVATE_BASE,
            "hidden_shared_base": SHARED_BASE,
        }
        for axis, name in enumerate("xyz"):
            values[f"hidden_block_count_{name}"] = self.grid[axis]
            values[f"hidden_group_size_{name}"] = self.block[axis]
            values[f"hidden_remainder_{name}"] = 0
        return values

    def packet(self, kernarg: int) -> bytes:
        """Return the AQL packet in which a kernel may read its launch shape.

        Parameters
        ----------
        kernarg : int
            The address of the arguments.
        """
        threads = [g * b for g, b in zip(self.grid, self.block, strict=True)]
        return struct.pack(
            "<HHHHHHIIIIIQQQQ",
            0, 3, *self.block, 0, *threads, self.scratch_size, self.lds_size, 0, kernarg, 0, 0,
        )  # fmt: skip

    def initial_scalars(
        self, kernarg: np.ndarray, packet: np.ndarray
    ) -> tuple[np.ndarray, list[int]]:
        """Return the scalar registers at the start of a wave, and which hold the workgroup's ids.

        Parameters
        ----------
        kernarg, packet : numpy.ndarray
            Argument block and dispatch packet, in memory that stays alive.
        """
        kernel = self.kernel
        preloaded = kernarg.view(np.uint32)[kernel.preload_offset :][: kernel.preload_length]
        # What a bit of the descriptor's properties asks for, in the order of the bits. The private
        # segment buffer, the queue, the dispatch id and flat scratch are nothing on gfx950.
        offered = (
            [0] * 4, _halves(packet.ctypes.data), [0] * 2, _halves(kernarg.ctypes.data),
            [0] * 2, [0] * 2, [self.scratch_size],
        )  # fmt: skip
        given: list[int] = []
        for bit, words in enumerate(offered):
            given += words if kernel.properties >> bit & 1 else []
        given += preloaded.tolist()
        scalars = np.full(SGPRS, POISON, np.uint32)
        scalars[FLAT_SCRATCH:VCC] = 0
        scalars[VCC + 2 : M0] = 0
        scalars[: len(given)] = given
        place = max(len(given), kernel.user_sgprs)
        ids = []
        for used in kernel.workgroup_ids:
            ids.append(place if used else -1)
            place += used
        return scalars, ids


def _halves(address: int) -> list[int]:
    return [address & 0xFFFFFFFF, address >> 32]


def _three(name: str, values: Sequence[int]) -> tuple[int, int, int]:
    numbers = [int(v) for v in values]
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise ValueError(f"{name}={tuple(values)} must be one to three positive numbers")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _scratch_bytes(kernel: Kernel, stack_size: int) -> int:
    """Return the scratch of a lane: what the compiler counted, or the stack where it could not.

    HIP gives a kernel with a dynamic stack at least hipLimitStackSize, but no more than 16 KiB
    (clr, rocvirtual.cpp).
    """
    stack = min(stack_size, _LARGEST_STACK) if kernel.dynamic_stack else 0
    return -(-max(kernel.scratch_size, stack) // 16) * 16

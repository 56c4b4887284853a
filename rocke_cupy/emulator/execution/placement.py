"""NumPy arrays as device memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rocke_cupy.emulator.execution.memory import Buffer

_FIRST_ADDRESS = 0x2000_0000_0000
"""Where device memory starts: neither the host's memory nor the apertures of LDS and scratch."""

_PAGE = 4096
"""What an allocation of HIP is aligned to."""

_WIDEST = 16
"""Bytes of the widest access, and what NumPy aligns memory to."""

_GUARD = 1 << 20


def buffer_of(name: str, array: np.ndarray) -> Buffer:
    """Return the memory of an array, where it lies."""
    low, high = np.lib.array_utils.byte_bounds(array)
    return Buffer(low, high - low, name, array.flags.writeable)


def _merge(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Join buffers of views that share memory, so that each byte is in one buffer."""
    merged: list[Buffer] = []
    for b in sorted(buffers, key=lambda b: b.address):
        if merged and b.address < merged[-1].address + merged[-1].size:
            last = merged[-1]
            end = max(last.address + last.size, b.address + b.size)
            name = last.name if b.name == last.name else f"{last.name}, {b.name}"
            writable = last.writable or b.writable
            merged[-1] = replace(last, size=end - last.address, name=name, writable=writable)
        else:
            merged.append(b)
    return merged


class Placement:
    """Arrays of the host as allocations of a device.

    Each starts a page, wherever NumPy put it, so that a kernel and the timing model see the same
    addresses in each run. A view that starts amid 16 bytes does so on the device, and views that
    share memory do so there.

    Parameters
    ----------
    buffers : sequence of Buffer
        The arrays' memory, where it lies.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self._merged = _merge(buffers)
        self._starts = [b.address for b in self._merged]
        self._device: dict[int, int] = {}
        free = _FIRST_ADDRESS
        # In the order in which they are given: that of the host's addresses changes.
        for given in buffers:
            b = self._at(given.address)
            if b.address not in self._device:
                self._device[b.address] = free + b.address % _WIDEST
                free += -(-(b.size + _WIDEST) // _PAGE) * _PAGE + _GUARD

    def _at(self, host: int) -> Buffer:
        return self._merged[bisect_right(self._starts, host) - 1]

    def __getitem__(self, host: int) -> int:
        """Return the device's address of what lies at an address of the host."""
        b = self._at(host)
        return self._device[b.address] + host - b.address

    @property
    def buffers(self) -> list[Buffer]:
        """The memory that a kernel may access, at the device's addresses and where it lies."""
        pairs = [(b, self._device[b.address]) for b in self._merged]
        moved = [replace(b, address=device, host=b.address) for b, device in pairs]
        return [*moved, *(replace(b, device=device) for b, device in pairs)]

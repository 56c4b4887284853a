"""Device memory of a launch: buffers with bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel may access.

    Attributes
    ----------
    address, size : int
        Where it starts, for the kernel's pointers, and its bytes.
    name : str
        For messages.
    writable : bool
        Whether stores are allowed.
    of_host : bool
        Whether the host and the kernel take turns there, so that races are not looked for.
    host : int, optional
        Where the bytes are in this process; at `address` unless given.
    device : int, optional
        Where they would be on a device, which the timing model asks; at `address` unless given.
    """

    address: int
    size: int
    name: str
    writable: bool = True
    of_host: bool = False
    host: int | None = None
    device: int | None = None


_NEAR_NULL = 1 << 24
"""An address so near to null is an element or member of what a null pointer points to."""

_MISSING = {
    "hidden_heap_v1": "the heap of malloc, free, new and delete in a kernel",
    "hidden_printf_buffer": "the buffer of printf without host calls (-mprintf-kind=buffered)",
    "hidden_default_queue": "the queue of device-side enqueue",
    "hidden_completion_action": "the completion action of device-side enqueue",
    "hidden_queue_ptr": "the queue of the launch",
}
"""What hidden arguments point to on a device, and nothing does here."""

_MISSING_ADDRESS, _MISSING_BYTES = 0x3000_0000_0000, 1 << 32

MISSING_POINTERS = {name: _MISSING_ADDRESS + k * _MISSING_BYTES for k, name in enumerate(_MISSING)}
"""An address for each of them: an access there is told from one through a null pointer."""


def _what_is_missing(address: int) -> str:
    for name, start in MISSING_POINTERS.items():
        if start <= address < start + _MISSING_BYTES:
            return f"{_MISSING[name]}, which the emulator does not have"
    return ""


def _from_null(address: int) -> str:
    if not address:
        return ""
    if address < _NEAR_NULL:
        return f", {address} bytes past it"
    return f", {(1 << 64) - address} bytes before it"


class BufferTable:
    """Buffers sorted by address, as the core searches them."""

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = sorted((b for b in buffers if b.size), key=lambda b: b.address)
        self._columns = {
            "buffer_start": np.array([b.address for b in self.buffers], np.uint64),
            "buffer_end": np.array([b.address + b.size for b in self.buffers], np.uint64),
            "buffer_host": self._distances(b.host for b in self.buffers),
            "buffer_device": self._distances(b.device for b in self.buffers),
            "buffer_writable": np.array([b.writable for b in self.buffers], np.uint8),
            "buffer_watched": np.array(
                [b.writable and not b.of_host for b in self.buffers], np.uint8
            ),
        }
        for low, high in zip(self.buffers, self.buffers[1:], strict=False):
            if low.address + low.size > high.address:
                raise ValueError(f"buffers {low.name} and {high.name} overlap")

    def _distances(self, places: Iterable[int | None]) -> np.ndarray:
        """Return what turns addresses into others, modulo 2**64."""
        pairs = zip(places, self.buffers, strict=True)
        distances = [0 if place is None else place - b.address for place, b in pairs]
        return np.array(distances, np.int64)

    @property
    def fields(self) -> dict[str, int]:
        """The fields of the core's launch that this table fills; it has to stay alive."""
        addresses = {name: column.ctypes.data for name, column in self._columns.items()}
        return {**addresses, "n_buffers": len(self.buffers)}

    def place(self, host: int) -> str:
        """Say where an address of this process lies, for memory that a kernel has accessed."""
        for b in self.buffers:
            offset = host - (b.address if b.host is None else b.host)
            if 0 <= offset < b.size:
                return f"at offset {offset} of buffer {b.name}"
        raise ValueError(f"{host:#x} is in no buffer")

    def explain(self, address: int) -> str:
        """Say where an address lies: in, before or past the nearest buffer, or a null pointer."""
        if missing := _what_is_missing(address):
            return f"in {missing}"

        def away(b: Buffer) -> int:
            return max(b.address - address, address - b.address - b.size)

        nearest = min(self.buffers, key=away, default=None)
        from_null = min(address, (1 << 64) - address)
        if from_null < _NEAR_NULL and (nearest is None or from_null < away(nearest)):
            return f"through a null pointer{_from_null(address)}"
        if nearest is None:
            return f"at address {address:#x}, and there are no buffers"
        offset = address - nearest.address
        what = f"buffer {nearest.name} of {nearest.size} bytes"
        if offset < 0:
            return f"at {-offset} bytes before {what}"
        if offset == nearest.size:
            return f"at offset {offset} of {what}, right past its end"
        if offset > nearest.size:
            return f"at offset {offset} of {what}, {offset - nearest.size} bytes past its end"
        if not nearest.writable:
            return f"at offset {offset} of {what}, which is read-only"
        return f"at offset {offset} of {what}, running past its end"

"""The shares of the keys on their way round the ring.

Each rank sends what it holds to the next and receives from the one before, while it computes. The
generators yield what arrives, the own share first; whoever takes it from them computes in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .waiting import wait

_MESSAGE_BYTES = 2**30
"""Longer arrays go in several messages: an MPI older than 4.0 counts bytes in 31 bits."""

Arrays = Sequence[Any]


def shares_on_host(comm: Any, own: Arrays, shapes: Sequence[Arrays]) -> Iterator[Arrays]:
    """Yield the shares of all ranks in NumPy arrays, the own one first, then from rank to rank.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
    own : sequence of arrays
        Contiguous; they are sent from where they are.
    shapes : sequence of sequences of shapes
        Of the arrays of each rank.
    """
    buffers = _buffers(np.empty, own, shapes, 2)
    held = own
    for step in range(1, comm.size):
        coming = _views(buffers[step % 2], shapes[_from(comm, step)])
        requests = _exchange(comm, held, coming)
        yield held
        wait(requests)
        held = coming
    yield held


def shares_on_device(comm: Any, own: Arrays, shapes: Sequence[Arrays]) -> Iterator[Arrays]:
    """Yield the shares in CuPy arrays, for an MPI that takes GPU memory.

    What is launched between two of them is on the way when the next exchange starts. MPI does not
    know of streams: what it sends must be there, and what it overwrites must have been read.
    """
    import cupy

    stream = cupy.cuda.get_current_stream()
    buffers = _buffers(cupy.empty, own, shapes, 2)
    held, before = own, stream.record()
    for step in range(1, comm.size):
        yield held
        launched = stream.record()
        # Up to there the buffer that is overwritten now was read, and the own share was written.
        before.synchronize()
        coming = _views(buffers[step % 2], shapes[_from(comm, step)])
        wait(_exchange(comm, held, coming))
        held, before = coming, launched
    yield held


def shares_by_host(comm: Any, own: Arrays, shapes: Sequence[Arrays]) -> Iterator[Arrays]:
    """Yield the shares in CuPy arrays, which travel in pinned memory of the host."""
    import cupy
    import cupyx

    stream = cupy.cuda.get_current_stream()
    (arriving,) = _buffers(cupy.empty, own, shapes, 1)
    staging = _buffers(cupyx.empty_pinned, own, shapes, 2)
    held, on_host = own, _views(staging[0], shapes[comm.rank])
    copied = [stream.record(), stream.record()]  # when a staging buffer has been copied from
    if comm.size > 1:
        for array, host in zip(own, on_host, strict=True):
            array.get(stream=stream, out=host)
        stream.synchronize()
    for step in range(1, comm.size):
        yield held
        shapes_to_come = shapes[_from(comm, step)]
        copied[step % 2].synchronize()
        coming = _views(staging[step % 2], shapes_to_come)
        wait(_exchange(comm, on_host, coming))
        held, on_host = _views(arriving, shapes_to_come), coming
        for array, host in zip(held, on_host, strict=True):
            array.set(host, stream=stream)  # after what reads the share before
        copied[step % 2] = stream.record()
    yield held


def _from(comm: Any, step: int) -> int:
    """Return whose share a rank holds after so many steps."""
    return int((comm.rank - step) % comm.size)


def _buffers(
    empty: Callable[..., Any], own: Arrays, shapes: Sequence[Arrays], count: int
) -> list[Arrays]:
    """Return sets of flat arrays that are long enough for any rank's."""
    elements = [max(map(_elements, arrays)) for arrays in zip(*shapes, strict=True)]
    return [
        [empty(n, array.dtype) for n, array in zip(elements, own, strict=True)]
        for _ in range(count)
    ]


def _elements(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _views(buffers: Arrays, shapes: Arrays) -> Arrays:
    return [
        buffer[: _elements(shape)].reshape(shape)
        for buffer, shape in zip(buffers, shapes, strict=True)
    ]


def _exchange(comm: Any, held: Arrays, coming: Arrays) -> list[Any]:
    """Start to send what is held to the next rank, and to receive from the one before."""
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    receives = [comm.Irecv(part, before) for array in coming for part in _messages(array)]
    sends = [comm.Isend(part, after) for array in held for part in _messages(array)]
    return receives + sends


def _messages(array: Any) -> Iterator[Any]:
    """Cut a contiguous array into pieces of bytes: MPI knows no bfloat16."""
    octets = array.reshape(-1).view(np.uint8)
    for start in range(0, octets.size, _MESSAGE_BYTES):
        yield octets[start : start + _MESSAGE_BYTES]

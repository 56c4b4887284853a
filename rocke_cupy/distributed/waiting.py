"""Waiting for other ranks in Python: within MPI's own calls Ctrl-C does nothing."""

from __future__ import annotations

import pickle
import time
from typing import Any

import numpy as np

_FIRST_PAUSE, _LONGEST_PAUSE = 1e-5, 1e-3
"""Seconds."""


def wait(requests: list[Any]) -> None:
    """Wait until all requests of MPI are done."""
    pause = _FIRST_PAUSE
    while requests and not type(requests[0]).Testall(requests):
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def duplicate(comm: Any) -> Any:
    """Return a communicator of the same ranks, in which no message is mistaken for another's."""
    copy, request = comm.Idup()
    wait([request])
    return copy


def gather(comm: Any, value: Any) -> list[Any]:
    """Return the objects that all ranks give, by rank, on each rank."""
    own = np.frombuffer(pickle.dumps(value), np.uint8)
    sizes = np.empty(comm.size, np.int64)
    wait([comm.Iallgather(np.array([own.size]), sizes)])
    everything = np.empty(sizes.sum(), np.uint8)
    wait([comm.Iallgatherv(own, (everything, sizes))])
    ends = np.cumsum(sizes)
    return [
        pickle.loads(everything[end - size : end].tobytes())
        for end, size in zip(ends, sizes, strict=True)
    ]

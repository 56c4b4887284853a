"""Whether an MPI takes GPU memory, or shares travel by way of the host."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

STAGINGS = ("device", "host")

# Extensions by which an MPI says so: of Open MPI, of MPICH, and of Cray's, which wants a kind.
_QUERIES = ("MPIX_Query_rocm_support", "MPIX_Query_hip_support")
_QUERY_OF_KIND, _HIP = "MPIX_GPU_query_support", 2


def choose(comm: Any, given: str | None) -> str:
    """Return the way of the shares of a call: what was given, else what the MPI says it can."""
    if given is not None:
        return given
    if takes_gpu_memory(type(comm).__module__):
        return "device"
    if comm.rank == 0:
        _say_that_it_goes_by_the_host()
    return "host"


@functools.cache
def takes_gpu_memory(module: str) -> bool:
    """Ask the MPI that a module of mpi4py is linked with."""
    library = ctypes.CDLL(sys.modules[module].__file__)
    if any(getattr(library, query)() for query in _QUERIES if hasattr(library, query)):
        return True
    answer = ctypes.c_int(0)
    if hasattr(library, _QUERY_OF_KIND):
        getattr(library, _QUERY_OF_KIND)(_HIP, ctypes.byref(answer))
    return bool(answer.value)


@functools.cache
def _say_that_it_goes_by_the_host() -> None:
    print(
        "rocke_cupy: this MPI does not say that it takes GPU memory, so shares of the keys travel "
        'by way of the host (staging="host" says so, staging="device" trusts it all the same)',
        file=sys.stderr,
        flush=True,
    )

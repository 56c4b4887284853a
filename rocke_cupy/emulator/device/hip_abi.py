"""What the HIP stand-in (hip_runtime/runtime.h) shares with Python."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import (
    POINTER,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from pathlib import Path

from rocke_cupy.emulator.device import variables

LIBRARY = "libamdhip64.so.7"

# Values of hipError_t.
SUCCESS = 0
INVALID_VALUE = 1
OUT_OF_MEMORY = 2
INVALID_IMAGE = 200
NO_BINARY_FOR_GPU = 209
NOT_FOUND = 500
LAUNCH_FAILURE = 719
NOT_SUPPORTED = 801
UNKNOWN = 999

INTERRUPTED = -1
"""What a callback returns instead after Ctrl-C."""


class Refused(Exception):  # noqa: N818 (not an error of ours: it becomes a HIP status)
    """A request that HIP answers with a status and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Allocation(ctypes.Structure):
    """A live allocation; `kind` is 0 for device, 1 for pinned host, 2 for managed memory."""

    _fields_ = (("address", c_uint64), ("size", c_size_t), ("device", c_int32), ("kind", c_int32))


class FunctionInfo(ctypes.Structure):
    """What the stand-in knows of a kernel, for its launch checks and attributes."""

    _fields_ = (("module", c_uint64), ("kernel", c_uint64), ("max_threads", c_uint32),
                ("static_lds", c_uint32), ("scratch_bytes", c_uint32),
                ("vector_registers", c_uint32))  # fmt: skip


class LaunchRequest(ctypes.Structure):
    """One launch; its arguments are an array of pointers, or one packed block."""

    _fields_ = (("module", c_uint64), ("kernel", c_uint64), ("grid", c_uint32 * 3),
                ("block", c_uint32 * 3), ("shared_bytes", c_uint32), ("device", c_int32),
                ("stack_bytes", c_uint64), ("arguments", POINTER(c_void_p)), ("packed", c_void_p),
                ("packed_bytes", c_size_t))  # fmt: skip


class MatrixProduct(ctypes.Structure):
    """The product C = alpha op(A) op(B) + beta C of column-major matrices, `batch` times."""

    _fields_ = (("trans_a", c_int32), ("trans_b", c_int32), ("m", c_int32), ("n", c_int32),
                ("k", c_int32), ("batch", c_int32), ("type_a", c_int32), ("type_b", c_int32),
                ("type_c", c_int32), ("type_scalar", c_int32),
                ("is_pointer_array", c_int32), ("alpha", c_void_p), ("beta", c_void_p),
                ("a", c_void_p), ("b", c_void_p), ("c", c_void_p), ("lda", c_int64),
                ("ldb", c_int64), ("ldc", c_int64), ("stride_a", c_int64),
                ("stride_b", c_int64), ("stride_c", c_int64))  # fmt: skip


class RandomSeed(ctypes.Structure):
    """Where a generator's sequence starts."""

    _fields_ = (("generator", c_uint64), ("seed", c_uint64), ("offset", c_uint64))


class RandomDraw(ctypes.Structure):
    """A request for `count` numbers of `bytes` bytes from a generator, into `output`."""

    _fields_ = (("distribution", c_int32), ("bytes", c_int32), ("generator", c_uint64),
                ("output", c_void_p), ("count", c_size_t), ("mean", c_double),
                ("deviation", c_double))  # fmt: skip


class Callbacks(ctypes.Structure):
    """The functions that Python registers. Each returns a hipError_t."""

    _fields_ = (
        ("load_module", ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_uint64))),
        ("unload_module", ctypes.CFUNCTYPE(c_int, c_uint64)),
        ("find_function", ctypes.CFUNCTYPE(c_int, c_uint64, c_char_p, POINTER(FunctionInfo))),
        ("find_global",
         ctypes.CFUNCTYPE(c_int, c_uint64, c_char_p, POINTER(c_void_p), POINTER(c_size_t))),
        ("launch", ctypes.CFUNCTYPE(c_int, POINTER(LaunchRequest))),
        ("matrix_product", ctypes.CFUNCTYPE(c_int, POINTER(MatrixProduct))),
        ("random_seed", ctypes.CFUNCTYPE(c_int, POINTER(RandomSeed))),
        ("random_draw", ctypes.CFUNCTYPE(c_int, POINTER(RandomDraw))),
    )  # fmt: skip


@functools.cache
def runtime() -> ctypes.CDLL:
    """Load the stand-in of this process's virtual root, or get hold of it where CuPy loaded it."""
    library = ctypes.CDLL(str(Path(os.environ[variables.ROOT]) / "lib" / LIBRARY))
    library.rocke_register.argtypes = (POINTER(Callbacks),)
    library.rocke_register.restype = None
    library.rocke_unregister.argtypes = ()
    library.rocke_unregister.restype = None
    library.rocke_set_message.argtypes = (c_char_p,)
    library.rocke_set_message.restype = None
    library.rocke_allocations.argtypes = (
        POINTER(Allocation),
        c_size_t,
        c_int,
        POINTER(c_uint64),
    )
    library.rocke_allocations.restype = c_size_t
    library.rocke_room.argtypes = (c_void_p,)
    library.rocke_room.restype = c_size_t
    library.rocke_allocations_version.argtypes = (c_int,)
    library.rocke_allocations_version.restype = c_uint64
    return library

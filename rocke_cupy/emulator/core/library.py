"""The compiled core: building it, its functions, its list of instructions."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any, NamedTuple

from rocke_cupy.emulator.core import layouts
from rocke_cupy.emulator.core.compiler import build_library
from rocke_cupy.emulator.core.numbers import UNITS

_FOLDER = Path(__file__).parent
_FLAGS = (
    "-O3",
    "-march=native",
    # each operation rounds by itself, as the hardware's do
    "-ffp-contract=off",
    "-fno-math-errno",
    # lets comparisons become masks; nothing here looks at floating-point exceptions
    "-fno-trapping-math",
    "-fno-strict-aliasing",
)


class Op(NamedTuple):
    """A line of the semantics tables."""

    number: int
    name: str
    form: str
    format: int
    unit: str


def source_files() -> list[Path]:
    """Return the C sources of the core and all that they include."""
    return sorted(path for kind in ("c", "h", "inc") for path in _FOLDER.rglob(f"*.{kind}"))


@functools.cache
def library() -> ctypes.CDLL:
    """Build the core if need be, load it and declare its functions."""
    included = [path for path in source_files() if path.suffix != ".c"]
    sources = [path for path in source_files() if path.suffix == ".c"]
    path = build_library(
        "emulator_core", sources, depends=included, flags=_FLAGS, link=("-lm", "-pthread")
    )
    core = ctypes.CDLL(str(path))
    for name, (result, *arguments) in _signatures().items():
        function = getattr(core, name)
        function.restype, function.argtypes = result, arguments
    _compare_sizes(core)
    return core


def _signatures() -> dict[str, tuple[Any, ...]]:
    """Return the types of the core's functions: first the result's, then the arguments'."""
    u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.POINTER
    machine = address = ctypes.c_void_p
    return {
        "rocke_op": (pointer(layouts.OpRow), u32),
        "rocke_sizes": (u32, u32),
        "rocke_create": (machine, pointer(layouts.Launch)),
        "rocke_destroy": (None, machine),
        "rocke_work": (ctypes.c_int, machine, u32, ctypes.c_double),
        "rocke_stop": (None, machine),
        "rocke_finished": (u64, machine),
        "rocke_fault": (pointer(layouts.Fault), machine),
        "rocke_counts": (address, machine, u32),
        "rocke_bank_extra": (address, machine, u32),
        "rocke_bank_ideal": (address, machine, u32),
        "rocke_uninitialised": (address, machine, u32),
        "rocke_races": (pointer(layouts.RaceRecord), machine, u32, pointer(u32)),
        "rocke_bytes": (None, machine, u32, pointer(u64)),
        "rocke_step": (ctypes.c_int32, machine, address, address, address),
        "rocke_timed": (pointer(layouts.TimedWorkgroup), machine, u32, pointer(u64)),
        "rocke_stalls": (address, machine, u32),
        "rocke_trace": (address, machine, u32, u32, pointer(u64)),
        "rocke_hostcall_bytes": (u64, u32),
        "rocke_hostcall_start": (None, address, u32),
    }


def _compare_sizes(core: ctypes.CDLL) -> None:
    ours = (
        layouts.INSTRUCTION.itemsize,
        layouts.OPERAND.itemsize,
        *map(ctypes.sizeof, (layouts.Launch, layouts.Fault, layouts.RaceRecord)),
        layouts.TIMED_INSTRUCTION.itemsize,
        *map(ctypes.sizeof, (layouts.TimingModel, layouts.TimedWorkgroup)),
        layouts.TRACE_ENTRY.itemsize,
        layouts.HAZARD_MARKS.itemsize,
        layouts.HAZARD_SPAN.itemsize,
    )
    theirs = tuple(core.rocke_sizes(which) for which in range(len(ours)))
    assert ours == theirs, f"structures of layouts.py {ours} and machine.h {theirs} differ"


@functools.cache
def ops() -> dict[str, Op]:
    """Return the instructions that the core knows, by name without encoding suffix."""
    found = {}
    index = 0
    while raw := library().rocke_op(index):
        op = raw.contents
        name = op.name.decode()
        found[name] = Op(index, name, op.form.decode(), op.format, UNITS[op.unit])
        index += 1
    return found

"""The compiled core: building it, its structures, its list of instructions."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rocke_cupy.emulator.native import build_library

LANES, VGPR_ROWS, SGPR_ROWS = 64, 512, 128

POISON = 0x7FF97FF9
"""What registers and LDS hold before anything is written: a NaN in fp32, fp64, fp16 and bf16."""

_FOLDER = Path(__file__).with_name("core")
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

OPERAND = np.dtype(
    [
        ("kind", "u1"),
        ("mods", "u1"),
        ("sel", "u1"),
        ("width", "u1"),
        ("index", "u2"),
        ("type", "u1"),
        ("unused", "u1"),
        ("value", "u8"),
    ],
    align=True,
)
INSTRUCTION = np.dtype(
    [
        ("execute", "u8"),
        ("lanes", "u8"),
        ("op", "u2"),
        ("n_dst", "u1"),
        ("n_src", "u1"),
        ("flags", "u4"),
        ("target", "i4"),
        ("offset", "i4"),
        ("offset1", "i4"),
        ("imm", "u4"),
        ("dpp_ctrl", "u2"),
        ("dpp_rows", "u1"),
        ("dpp_banks", "u1"),
        ("unit", "u4"),
        ("queue", "u4"),
        ("dst", OPERAND, 2),
        ("src", OPERAND, 5),
    ],
    align=True,
)
"""One instruction record; core/machine.h has the same layout."""

_u32, _u64, _i32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


SERVE = ctypes.CFUNCTYPE(ctypes.c_int, _u32, _u64, ctypes.POINTER(_u64 * 8))
"""Serves a packet of host calls: service, lanes, and eight words of each lane."""


class Launch(ctypes.Structure):
    """What a machine runs; core/machine.h has the same layout."""

    _fields_ = (
        ("code", ctypes.c_void_p),
        ("index_of_word", ctypes.c_void_p),
        ("text_address", _u64),
        ("text_words", _u64),
        ("n_code", _u64),
        ("buffer_start", ctypes.c_void_p),
        ("buffer_end", ctypes.c_void_p),
        ("buffer_host", ctypes.c_void_p),
        ("buffer_device", ctypes.c_void_p),
        ("buffer_writable", ctypes.c_void_p),
        ("n_buffers", _u64),
        ("workgroups", ctypes.c_void_p),
        ("n_workgroups", _u64),
        ("initial_s", ctypes.c_void_p),
        ("id_sgpr", _i32 * 3),
        ("grid", _u32 * 3),
        ("block", _u32 * 3),
        ("entry", _i32),
        ("n_vgprs", _u32),
        ("accum_offset", _u32),
        ("lds_size", _u32),
        ("scratch_size", _u32),
        ("mode", _u32),
        ("lazy", _u32),
        ("races", _u32),
        ("equal_barriers", _u32),
        ("written_lds", _u32),
        ("schedule", _u32),
        ("quantum", _u32),
        ("threads", _u32),
        ("work_item_dims", _u32),
        ("seed", _u64),
        ("max_instructions", _u64),
        ("timed_instructions", ctypes.c_void_p),
        ("timing_model", ctypes.c_void_p),
        ("hostcall", ctypes.c_void_p),
        ("serve", SERVE),
    )


class Fault(ctypes.Structure):
    """Why a machine stopped."""

    _fields_ = (
        ("kind", _i32),
        ("pc", _i32),
        ("other_pc", _i32),
        ("wave", _i32),
        ("other_wave", _i32),
        ("lane", _i32),
        ("workgroup", _u32),
        ("address", _u64),
        ("text", ctypes.c_char * 480),
    )


class RaceRecord(ctypes.Structure):
    """A collected race."""

    _fields_ = (
        ("pc", _i32),
        ("other_pc", _i32),
        ("wave", _i32),
        ("other_wave", _i32),
        ("workgroup", _u32),
        ("address", _u32),
        ("count", _u64),
    )


TIMED_INSTRUCTION = np.dtype([(name, "u2") for name in ("kind", "issue", "pipe", "latency")])
"""The costs of one instruction; core/timing.h has the same layout."""

TRACE_ENTRY = np.dtype([("pc", "u4"), ("work", "u4"), ("time", "u8")])
"""An executed instruction of a wave and its cycle of issue; core/timing.h has the same layout."""

TIMING_UNITS = ("mfma", "vector", "scalar", "lds", "memory")
STALLS = (
    "none", "operand", "vector", "mfma", "lds", "memory", "vmcnt", "lgkmcnt", "barrier",
)  # fmt: skip
"""Units that may be busy and what a wave may wait for, in the order of core/timing.h."""


class TimingModel(ctypes.Structure):
    """The timing model's constants; core/timing.h has the same layout."""

    _fields_ = tuple(
        (name, _u32)
        for name in (
            "simds", "issue_turn", "matrix_result", "scalar_result", "branch_taken",
            "branch_not_taken", "barrier", "lds_latency", "lds_phase", "memory_latency",
            "memory_line", "memory_least", "memory_queue", "scalar_latency", "copies",
        )
    )  # fmt: skip


class TimedWorkgroup(ctypes.Structure):
    """What a replayed workgroup took; core/timing.h has the same layout."""

    _fields_ = (
        ("workgroup", _u64),
        ("cycles", _u64),
        ("busy", _u64 * len(TIMING_UNITS)),
        ("stalls", _u64 * len(STALLS)),
    )


class _Op(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("form", ctypes.c_char_p),
        ("format", ctypes.c_uint8),
        ("unit", ctypes.c_uint8),
        ("execute", ctypes.c_void_p),
        ("lanes", ctypes.c_void_p),
    )


class Op(NamedTuple):
    """A line of the semantics tables."""

    number: int
    name: str
    form: str
    format: int
    unit: str


UNITS = (
    "none", "salu", "valu", "trans", "mfma", "lds", "vmem", "lds_dma", "smem", "branch", "wait",
    "barrier",
)  # fmt: skip
"""Names of the execution units, in the order of core/machine.h."""


@functools.cache
def library() -> ctypes.CDLL:
    """Build the core if need be, load it and declare its functions."""
    sources = sorted(_FOLDER.glob("**/*.c"))
    depends = sorted([*_FOLDER.glob("**/*.h"), *_FOLDER.glob("**/*.inc")])
    path = build_library(
        "emulator_core", sources, depends=depends, flags=_FLAGS, link=("-lm", "-pthread")
    )
    core = ctypes.CDLL(str(path))
    machine, address = ctypes.c_void_p, ctypes.c_void_p
    signatures = {
        "rocke_op": (ctypes.POINTER(_Op), _u32),
        "rocke_sizes": (_u32, _u32),
        "rocke_create": (machine, ctypes.POINTER(Launch)),
        "rocke_destroy": (None, machine),
        "rocke_work": (ctypes.c_int, machine, _u32, ctypes.c_double),
        "rocke_stop": (None, machine),
        "rocke_finished": (_u64, machine),
        "rocke_fault": (ctypes.POINTER(Fault), machine),
        "rocke_counts": (address, machine, _u32),
        "rocke_bank_extra": (address, machine, _u32),
        "rocke_bank_ideal": (address, machine, _u32),
        "rocke_uninitialised": (address, machine, _u32),
        "rocke_races": (ctypes.POINTER(RaceRecord), machine, _u32, ctypes.POINTER(_u32)),
        "rocke_bytes": (None, machine, _u32, ctypes.POINTER(_u64)),
        "rocke_step": (_i32, machine, address, address, address),
        "rocke_timed": (ctypes.POINTER(TimedWorkgroup), machine, _u32, ctypes.POINTER(_u64)),
        "rocke_stalls": (address, machine, _u32),
        "rocke_trace": (address, machine, _u32, _u32, ctypes.POINTER(_u64)),
        "rocke_hostcall_bytes": (_u64, _u32),
        "rocke_hostcall_start": (None, address, _u32),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(core, name)
        function.restype, function.argtypes = result, arguments
    ours = (
        INSTRUCTION.itemsize,
        OPERAND.itemsize,
        *map(ctypes.sizeof, (Launch, Fault, RaceRecord)),
        TIMED_INSTRUCTION.itemsize,
        *map(ctypes.sizeof, (TimingModel, TimedWorkgroup)),
        TRACE_ENTRY.itemsize,
    )
    theirs = tuple(core.rocke_sizes(which) for which in range(len(ours)))
    assert ours == theirs, f"structures of _core.py {ours} and core/machine.h {theirs} differ"
    return core


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

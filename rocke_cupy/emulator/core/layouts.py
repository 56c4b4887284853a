"""The structures of the core, as machine.h and timing.h lay them out."""

from __future__ import annotations

import ctypes

import numpy as np

from rocke_cupy.emulator.core.numbers import STALLS, TIMING_UNITS

_u32, _u64, _i32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32

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
"""One instruction record; machine.h has the same layout."""


SERVE = ctypes.CFUNCTYPE(ctypes.c_int, _u32, _u64, ctypes.POINTER(_u64 * 8))
"""Serves a packet of host calls: service, lanes, and eight words of each lane."""


class Launch(ctypes.Structure):
    """What a machine runs; machine.h has the same layout."""

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
        ("buffer_watched", ctypes.c_void_p),
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
        ("hazard_marks", ctypes.c_void_p),
        ("hazard_spans", ctypes.c_void_p),
        ("hazard_ways", _u32),
        ("hazards", _u32),
        ("errata", _u32),
        ("hostcall", ctypes.c_void_p),
        ("serve", SERVE),
    )


class Fault(ctypes.Structure):
    """Why a machine stopped; machine.h has the same layout."""

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
    """A collected race; machine.h has the same layout."""

    _fields_ = (
        ("pc", _i32),
        ("other_pc", _i32),
        ("wave", _i32),
        ("other_wave", _i32),
        ("workgroup", _u32),
        ("is_global", _u32),
        ("address", _u64),
        ("count", _u64),
    )


TIMED_INSTRUCTION = np.dtype([(name, "u2") for name in ("kind", "issue", "pipe", "latency")])
"""The costs of one instruction; timing.h has the same layout."""

TRACE_ENTRY = np.dtype([("pc", "u4"), ("work", "u4"), ("time", "u8")])
"""An executed instruction of a wave and its cycle of issue; timing.h has the same layout."""

HAZARD_MARKS = np.dtype(
    [
        ("first", "u4"),
        ("n_uses", "u2"),
        ("n_locks", "u2"),
        ("states", "u1"),
        ("flags", "u1"),
        ("unused", "u2"),
    ]
)
"""What an instruction means to the rules on hazards; hazards.h has the same layout."""

HAZARD_SPAN = np.dtype(
    [
        ("slot", "u2"),
        ("way", "u1"),
        ("count", "u1"),
        ("chain", "u2"),
        ("states", "u1"),
        ("chained", "u1"),
    ]
)
"""Registers that an instruction locks or uses; hazards.h has the same layout."""


class TimingModel(ctypes.Structure):
    """The timing model's constants; timing.h has the same layout."""

    _fields_ = tuple(
        (name, _u32)
        for name in (
            "simds", "issue_turn", "matrix_result", "scalar_result", "branch_taken",
            "branch_not_taken", "barrier", "lds_latency", "lds_phase", "memory_latency",
            "memory_line", "memory_least", "memory_queue", "scalar_latency", "copies",
        )
    )  # fmt: skip


class TimedWorkgroup(ctypes.Structure):
    """What a replayed workgroup took; timing.h has the same layout."""

    _fields_ = (
        ("workgroup", _u64),
        ("cycles", _u64),
        ("busy", _u64 * len(TIMING_UNITS)),
        ("stalls", _u64 * len(STALLS)),
    )


class OpRow(ctypes.Structure):
    """A line of the semantics tables; machine.h has the same layout."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("form", ctypes.c_char_p),
        ("format", ctypes.c_uint8),
        ("unit", ctypes.c_uint8),
        ("execute", ctypes.c_void_p),
        ("lanes", ctypes.c_void_p),
    )

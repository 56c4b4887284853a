"""The timing model: what each instruction costs, and what a replay on the compute unit tells.

The replay itself is core/timing.c; all constants, with their sources, are in gfx950_timing.json.
docs/timing_model.md says what the numbers can tell and what not.
"""

from __future__ import annotations

import collections
import ctypes
import functools
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rocke_cupy.emulator import _core, decode
from rocke_cupy.emulator.code_object import Kernel
from rocke_cupy.emulator.dispatch import LDS_BYTES
from rocke_cupy.emulator.program import Program

UNITS: Mapping[str, str] = {
    "mfma": "matrix pipe",
    "vector": "vector issue",
    "scalar": "scalar issue",
    "lds": "LDS",
    "memory": "path to memory",
}
_PER_SIMD = ("mfma", "vector", "scalar")

(
    _SALU,
    _VALU,
    _PACKED,
    _MFMA,
    _LDS,
    _VMEM,
    _DMA,
    _SMEM,
    _BRANCH,
    _WAIT,
    _BARRIER,
    _NOP,
    _PRIORITY,
    _END,
) = range(14)
_KIND_OF_UNIT = {
    "none": _SALU, "salu": _SALU, "valu": _VALU, "trans": _VALU, "mfma": _MFMA, "lds": _LDS,
    "vmem": _VMEM, "lds_dma": _DMA, "smem": _SMEM, "branch": _BRANCH, "wait": _WAIT,
    "barrier": _BARRIER,
}  # fmt: skip
_KIND_OF_NAME = {"s_nop": _NOP, "s_setprio": _PRIORITY, "s_endpgm": _END}

_PACKED_FP32 = re.compile(r"v_pk_(add|mul|fma)_f32|v_pk_mov_b32")
_WIDE_MULTIPLY = re.compile(r"v_mul_(lo|hi)_[iu]32|v_mad_[iu]64_[iu]32")
_MATRIX_SHAPE = re.compile(r"v_mfma_\w+?_(\d+x\d+x\d+)_?")

_REGISTERS_OF_SIMD, _WAVES_OF_SIMD = 512, 8


@functools.cache
def constants() -> dict[str, Any]:
    """Return the model's constants by name, without their sources."""
    text = Path(__file__).with_name("gfx950_timing.json").read_text(encoding="utf-8")
    return {name: entry["value"] for name, entry in json.loads(text).items()}


def workgroups_per_compute_unit(kernel: Kernel, waves: int, lds_size: int) -> int:
    """Return how many workgroups of a kernel fit on a compute unit at once."""
    by_lds = LDS_BYTES // lds_size if lds_size else _WAVES_OF_SIMD
    registers = max(8, -(-kernel.allocated_vgprs // 8) * 8)
    waves_of_simd = min(_WAVES_OF_SIMD, _REGISTERS_OF_SIMD // registers)
    by_waves = waves_of_simd * constants()["simds"] // waves
    return max(1, min(by_lds, by_waves))


def instruction_costs(program: Program) -> np.ndarray:
    """Return what each instruction costs; one more for running past the end."""
    costs = np.zeros(len(program.records), _core.TIMED_INSTRUCTION)
    for index, instruction in enumerate(program.instructions):
        if not instruction.unknown:
            costs[index] = _cost(instruction.text, int(program.records[index]["imm"]))
    return costs


def _cost(text: str, immediate: int) -> tuple[int, int, int, int]:
    """Kind, cycles of issue, cycles of the matrix pipe, cycles to the result."""
    c = constants()
    mnemonic = text.partition(" ")[0]
    unit = decode.find_op(mnemonic).unit
    kind = _KIND_OF_NAME.get(mnemonic, _KIND_OF_UNIT[unit])
    if unit == "vmem" and " lds" in text:
        kind = _DMA
    if kind == _NOP:
        return kind, (immediate + 1) * c["issue_turn"], 0, 0
    if kind == _MFMA:
        shape = _MATRIX_SHAPE.match(mnemonic)
        if shape is None or shape[1] not in c["matrix_pipe"]:
            raise NotImplementedError(f"timing=True: the duration of {mnemonic} is not known")
        return kind, c["matrix_issue"], c["matrix_pipe"][shape[1]], 0
    if kind == _DMA:
        size = {"x4": 16, "x3": 12}.get(mnemonic[-2:], 4)
        return kind, 0, _core.LANES * size // c["dma_write_bytes"], 0
    if kind != _VALU:
        return kind, 0, 0, 0
    if unit == "trans":
        issue = c["transcendental_issue"]
    elif _PACKED_FP32.match(mnemonic):
        kind, issue = _PACKED, c["packed_issue"]
    elif mnemonic.startswith("v_permlane"):
        issue = c["permlane_issue"]
    elif _WIDE_MULTIPLY.match(mnemonic):
        issue = c["wide_multiply_issue"]
    else:
        issue = c["vector_issue"]
    return kind, issue, 0, issue


@dataclass(frozen=True)
class Phase:
    """What a wave does between two barriers.

    Attributes
    ----------
    cycles, waited : float
        From the first barrier to its arrival at the second, and its wait there.
    mnemonics : mapping of str to int
        What it issued.
    """

    cycles: float
    waited: float
    mnemonics: Mapping[str, int]


def phases(program: Program, trace: np.ndarray, count: int) -> list[Phase]:
    """Cut a wave's trace at its barriers and return `count` phases from its middle.

    Parameters
    ----------
    program : Program
    trace : numpy.ndarray
        One of `Timing.traces`.
    count : int
        Barriers of one turn of the loop: the phases then start where a turn does, for all waves.
    """
    names = [i.mnemonic for i in program.instructions]
    cuts = [k for k, pc in enumerate(trace["pc"]) if names[pc] == "s_barrier"]
    middle = max(len(cuts) - 1 - count, 0) // 2 // count * count
    found = []
    for first, last in itertools.pairwise(cuts[middle : middle + count + 1]):
        start, arrival = int(trace["time"][first + 1]), int(trace["time"][last])
        issued = collections.Counter(names[pc] for pc in trace["pc"][first + 1 : last])
        found.append(Phase(arrival - start, int(trace["time"][last + 1]) - arrival, issued))
    return found


class Tables:
    """The model as one launch passes it to the core."""

    def __init__(self, program: Program, kernel: Kernel, waves: int, lds_size: int) -> None:
        self.costs = instruction_costs(program)
        names = (field[0] for field in _core.TimingModel._fields_)
        values = {name: constants()[name] for name in names if name != "copies"}
        self.copies = workgroups_per_compute_unit(kernel, waves, lds_size)
        self.model = _core.TimingModel(**values, copies=self.copies)

    @property
    def addresses(self) -> tuple[int, int]:
        """Where the core finds the costs and the model."""
        return self.costs.ctypes.data, ctypes.addressof(self.model)


@dataclass(frozen=True)
class Pace:
    """Modelled cycles of some work on one compute unit, and what they were spent on.

    Attributes
    ----------
    cycles : float
    busy : mapping of str to float
        Share of the cycles that each unit was busy; the mean over the SIMDs where each has one.
    stalls : mapping of str to float
        Cycles that a wave waited on the mean, by what it waited for: ``operand`` a result,
        ``vector``, ``mfma``, ``lds`` and ``memory`` a unit, ``vmcnt`` and ``lgkmcnt`` an
        `s_waitcnt`, ``barrier`` the other waves.
    """

    cycles: float
    busy: Mapping[str, float]
    stalls: Mapping[str, float]

    @property
    def limit(self) -> str:
        """The unit that is busy for the largest share of the time."""
        return max(self.busy, key=lambda unit: self.busy[unit])

    def __str__(self) -> str:
        units = ", ".join(f"{UNITS[unit]} {share:.0%}" for unit, share in self.busy.items())
        stalls = ", ".join(f"{name} {n:,.0f}" for name, n in self.stalls.items() if n >= 0.5)
        return (
            f"modelled: {self.cycles:,.0f} cycles; busy: {units}; limit: {UNITS[self.limit]}\n"
            f"a wave waits for: {stalls or 'nothing'}"
        )


@dataclass(frozen=True)
class Timing:
    """Modelled time of the workgroups that a launch executed.

    Attributes
    ----------
    cycles : mapping of int to int
        Of each workgroup, by its linear id. With `copies` above 1 these are the cycles in which a
        compute unit finishes that many of them, side by side.
    copies : int
        Workgroups that share a compute unit.
    waves : int
        Of a workgroup.
    busy, stalls : mapping
        Cycles by unit and by reason, over all workgroups, SIMDs and waves.
    stalls_at : numpy.ndarray
        Cycles that waves waited before each instruction of the program (after it, for barriers).
    traces : tuple of numpy.ndarray
        What each wave of the workgroup issued, with fields ``pc`` and ``time``; of the last
        workgroup if there were several.
    """

    cycles: Mapping[int, int]
    copies: int
    waves: int
    busy: Mapping[str, int]
    stalls: Mapping[str, int]
    stalls_at: np.ndarray = field(repr=False)
    traces: tuple[np.ndarray, ...] = field(repr=False)

    @property
    def pace(self) -> Pace:
        """What a workgroup takes, on the mean."""
        return self._pace(sum(self.cycles.values()), self.busy, self.stalls, len(self.cycles))

    def between(self, longer: Timing, units: float) -> Pace:
        """Return what a unit of work takes that a longer launch did on top of this one.

        Parameters
        ----------
        longer : Timing
        units : float
            How many units of work more it did, in one workgroup.
        """
        busy = {name: longer.busy[name] - n for name, n in self.busy.items()}
        stalls = {name: longer.stalls[name] - n for name, n in self.stalls.items()}
        cycles = sum(longer.cycles.values()) - sum(self.cycles.values())
        return self._pace(cycles, busy, stalls, units)

    def _pace(
        self, cycles: int, busy: Mapping[str, int], stalls: Mapping[str, int], units: float
    ) -> Pace:
        simds = constants()["simds"]
        shares = {
            name: n / cycles / (simds if name in _PER_SIMD else 1) for name, n in busy.items()
        }
        waits = {name: n / (self.waves * self.copies * units) for name, n in stalls.items()}
        return Pace(cycles / units, shares, {n: w for n, w in waits.items() if n != "none"})


def collect(
    core: ctypes.CDLL, machine: Any, threads: int, n_code: int, tables: Tables, waves: int
) -> Timing:
    """Gather what all threads of a machine replayed."""
    cycles: dict[int, int] = {}
    busy = dict.fromkeys(_core.TIMING_UNITS, 0)
    stalls = dict.fromkeys(_core.STALLS, 0)
    stalls_at = np.zeros(n_code, np.int64)
    for number in range(threads):
        count = ctypes.c_uint64()
        done = core.rocke_timed(machine, number, ctypes.byref(count))
        for result in done[: count.value]:
            cycles[result.workgroup] = result.cycles
            for k, name in enumerate(_core.TIMING_UNITS):
                busy[name] += result.busy[k]
            for k, name in enumerate(_core.STALLS):
                stalls[name] += result.stalls[k]
        data = ctypes.string_at(core.rocke_stalls(machine, number), 8 * n_code)
        stalls_at += np.frombuffer(data, np.int64)
    traces = tuple(_trace(core, machine, wave) for wave in range(waves))
    return Timing(cycles, tables.copies, waves, busy, stalls, stalls_at, traces)


def _trace(core: ctypes.CDLL, machine: Any, wave: int) -> np.ndarray:
    count = ctypes.c_uint64()
    entries = core.rocke_trace(machine, 0, wave, ctypes.byref(count))
    if not count.value:
        return np.zeros(0, _core.TRACE_ENTRY)
    return np.frombuffer(
        ctypes.string_at(entries, count.value * _core.TRACE_ENTRY.itemsize), _core.TRACE_ENTRY
    )

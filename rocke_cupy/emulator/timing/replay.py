"""What a launch gives to the replay in the core, and gathers from it (core/timing.c)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from rocke_cupy.emulator.core.gfx950 import LDS_BYTES, VGPRS, WAVES_OF_SIMD
from rocke_cupy.emulator.core.layouts import TRACE_ENTRY, TimingModel
from rocke_cupy.emulator.core.numbers import STALLS, TIMING_UNITS
from rocke_cupy.emulator.program import Kernel, Program
from rocke_cupy.emulator.timing.constants import constants
from rocke_cupy.emulator.timing.costs import instruction_costs
from rocke_cupy.emulator.timing.result import Timing


def workgroups_per_compute_unit(kernel: Kernel, waves: int, lds_size: int) -> int:
    """Return how many workgroups of a kernel fit on a compute unit at once."""
    by_lds = LDS_BYTES // lds_size if lds_size else WAVES_OF_SIMD
    registers = max(8, -(-kernel.allocated_vgprs // 8) * 8)
    waves_of_simd = min(WAVES_OF_SIMD, VGPRS // registers)
    by_waves = waves_of_simd * constants()["simds"] // waves
    return max(1, min(by_lds, by_waves))


class Tables:
    """The model as one launch passes it to the core."""

    def __init__(self, program: Program, kernel: Kernel, waves: int, lds_size: int) -> None:
        self.costs = instruction_costs(program)
        names = (field[0] for field in TimingModel._fields_)
        values = {name: constants()[name] for name in names if name != "copies"}
        self.copies = workgroups_per_compute_unit(kernel, waves, lds_size)
        self.model = TimingModel(**values, copies=self.copies)

    @property
    def addresses(self) -> tuple[int, int]:
        """Where the core finds the costs and the model."""
        return self.costs.ctypes.data, ctypes.addressof(self.model)


def collect(
    core: ctypes.CDLL, machine: Any, threads: int, n_code: int, tables: Tables, waves: int
) -> Timing:
    """Gather what all threads of a machine replayed."""
    cycles: dict[int, int] = {}
    busy = dict.fromkeys(TIMING_UNITS, 0)
    stalls = dict.fromkeys(STALLS, 0)
    stalls_at = np.zeros(n_code, np.int64)
    for number in range(threads):
        count = ctypes.c_uint64()
        done = core.rocke_timed(machine, number, ctypes.byref(count))
        for result in done[: count.value]:
            cycles[result.workgroup] = result.cycles
            for k, name in enumerate(TIMING_UNITS):
                busy[name] += result.busy[k]
            for k, name in enumerate(STALLS):
                stalls[name] += result.stalls[k]
        data = ctypes.string_at(core.rocke_stalls(machine, number), 8 * n_code)
        stalls_at += np.frombuffer(data, np.int64)
    traces = tuple(_trace(core, machine, wave) for wave in range(waves))
    return Timing(cycles, tables.copies, waves, busy, stalls, stalls_at, traces)


def _trace(core: ctypes.CDLL, machine: Any, wave: int) -> np.ndarray:
    count = ctypes.c_uint64()
    entries = core.rocke_trace(machine, 0, wave, ctypes.byref(count))
    if not count.value:
        return np.zeros(0, TRACE_ENTRY)
    return np.frombuffer(ctypes.string_at(entries, count.value * TRACE_ENTRY.itemsize), TRACE_ENTRY)

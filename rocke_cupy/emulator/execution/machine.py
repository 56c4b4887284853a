"""The compiled core at work on one launch: threads, faults, what was counted."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import numpy as np

from rocke_cupy.emulator.core.layouts import Fault, Launch
from rocke_cupy.emulator.core.library import library
from rocke_cupy.emulator.core.numbers import FAULTS
from rocke_cupy.emulator.execution.dispatch import Dispatch
from rocke_cupy.emulator.execution.hostcall import HostCalls
from rocke_cupy.emulator.execution.memory import BufferTable
from rocke_cupy.emulator.execution.report import EmulationError, Race, Report
from rocke_cupy.emulator.hazards.tables import Tables
from rocke_cupy.emulator.program import Kernel, Program
from rocke_cupy.emulator.timing.replay import Tables as TimingTables
from rocke_cupy.emulator.timing.replay import collect
from rocke_cupy.emulator.timing.result import Timing

_SLICE = 0.2  # seconds in the core between looks at Ctrl-C
_ALONE = 0.005  # seconds of work below which starting threads costs more than it saves

Progress = Callable[[int, int], None]


class Machine:
    """A machine of the core for the time of one launch."""

    def __init__(self, setup: Launch) -> None:
        self._core = library()
        self._setup = setup
        self._handle = self._core.rocke_create(ctypes.byref(setup))
        if not self._handle:
            raise MemoryError("no memory for the emulated workgroups")

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self._core.rocke_destroy(self._handle)

    def run(self, progress: Progress | None) -> None:
        """Work on all threads. This one returns from the core often, so that Ctrl-C is seen."""
        if not self._core.rocke_work(self._handle, 0, _ALONE):
            return
        others = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(1, self._setup.threads)
        ]
        for thread in others:
            thread.start()
        try:
            while self._core.rocke_work(self._handle, 0, _SLICE):
                self._show(progress)
            for thread in others:
                while thread.is_alive():
                    thread.join(_SLICE)
                    self._show(progress)
        except BaseException:
            self._core.rocke_stop(self._handle)
            for thread in others:
                thread.join()
            raise

    def _show(self, progress: Progress | None) -> None:
        if progress:
            progress(self._core.rocke_finished(self._handle), self._setup.n_workgroups)

    def _work(self, number: int) -> None:
        while self._core.rocke_work(self._handle, number, _SLICE):
            pass

    def raise_fault(
        self,
        program: Program,
        kernel: Kernel,
        table: BufferTable,
        host: HostCalls | None,
        rules: Tables | None,
    ) -> None:
        """Turn a fault of the core into an exception with the program's lines."""
        if not (pointer := self._core.rocke_fault(self._handle)):
            return
        if host and host.error:
            raise host.error
        fault = pointer.contents
        kind = FAULTS[fault.kind]
        asserted = list(dict.fromkeys(host.complaints)) if host else []
        broken = rules if kind == "hazard" else None
        what = (
            broken.explain(fault.address, fault.text.decode())
            if broken
            else _what_happened(fault, program, kernel, table)
        )
        place = f"kernel {kernel.name}, workgroup {fault.workgroup}, wave {fault.wave}"
        if fault.lane >= 0:
            place += f", lane {fault.lane}"
        lines = asserted if kind == "trap" and asserted else [what]
        lines += [f"  in {place}", f"  at {program.describe(fault.pc)}"]
        if fault.other_pc >= 0:
            relation = {
                "race": f"with wave {fault.other_wave}",
                "global_race": "with",
                "hang": "looping from",
                "early": "loaded by",
                "hazard": "behind",
            }
            lines.append(f"  {relation.get(kind, 'and')} {program.describe(fault.other_pc)}")
        if kind != "trap":
            lines += [f"  after {text}" for text in asserted]
        numbers = fault.pc, fault.other_pc, fault.wave, fault.lane, fault.workgroup
        rule = broken.rule(fault.address) if broken else ""
        raise EmulationError("\n".join(lines), kind, *numbers, rule=rule)

    def timing(self, tables: TimingTables, waves: int) -> Timing:
        """Collect what the replays of all threads took."""
        threads, n_code = self._setup.threads, self._setup.n_code
        return collect(self._core, self._handle, threads, n_code, tables, waves)

    def _sum(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape)) * 8
        total = np.zeros(shape, np.uint64)
        for number in range(self._setup.threads):
            address = getattr(self._core, name)(self._handle, number)
            total += np.frombuffer(ctypes.string_at(address, size), np.uint64).reshape(shape)
        return total.astype(np.int64)

    def _races(self, program: Program, table: BufferTable) -> list[Race]:
        found = []
        for number in range(self._setup.threads):
            count = ctypes.c_uint32()
            records = self._core.rocke_races(self._handle, number, ctypes.byref(count))
            for r in records[: count.value]:
                found.append(
                    Race(
                        program.describe(r.pc),
                        program.describe(r.other_pc),
                        (r.wave, r.other_wave),
                        r.workgroup,
                        table.place(r.address) if r.is_global else f"LDS address {r.address}",
                        r.count,
                    )
                )
        return found

    def report(
        self, program: Program, dispatch: Dispatch, table: BufferTable, started: float
    ) -> Report:
        """Collect what all threads counted."""
        code = self._setup.n_code
        totals = np.zeros(4, np.int64)
        for number in range(self._setup.threads):
            four = (ctypes.c_uint64 * 4)()
            self._core.rocke_bytes(self._handle, number, four)
            totals += np.array(four[:], np.int64)
        read, written, global_read, global_written = totals.tolist()
        return Report(
            program=program,
            kernel=dispatch.kernel,
            grid=dispatch.grid,
            block=dispatch.block,
            workgroups=self._setup.n_workgroups,
            counts=self._sum("rocke_counts", (dispatch.waves, code)),
            bank_extra=self._sum("rocke_bank_extra", (code,)),
            bank_ideal=self._sum("rocke_bank_ideal", (code,)),
            unwritten_reads=self._sum("rocke_uninitialised", (code,)),
            races=self._races(program, table),
            lds_bytes=(read, written),
            global_bytes=(global_read, global_written),
            seconds=time.perf_counter() - started,
        )


def _what_happened(fault: Fault, program: Program, kernel: Kernel, table: BufferTable) -> str:
    """Return the core's sentence, with what only Python knows."""
    text: str = fault.text.decode()
    kind = FAULTS[fault.kind]
    if kind == "unknown" and text == "not modelled":
        return f"not modelled: {program.why_unknown(fault.pc)}"
    if kind == "bounds":
        return f"{text} {table.explain(fault.address)}"
    if kind == "global_race":
        return f"{text}, {table.place(fault.address)}"
    if kind == "scratch_bounds" and kernel.dynamic_stack:
        return f"{text}: the stack of a lane overflows (hipLimitStackSize)"
    return text

"""Executing a kernel on raw arguments and buffers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from rocke_cupy.emulator.core.layouts import Launch
from rocke_cupy.emulator.core.numbers import SCHEDULES
from rocke_cupy.emulator.execution.dispatch import STACK_SIZE, Dispatch
from rocke_cupy.emulator.execution.hostcall import ARGUMENT, HostCalls
from rocke_cupy.emulator.execution.machine import Machine, Progress
from rocke_cupy.emulator.execution.memory import MISSING_POINTERS, Buffer, BufferTable
from rocke_cupy.emulator.execution.report import EmulationError, Report
from rocke_cupy.emulator.hazards.tables import tables_of
from rocke_cupy.emulator.options import Options
from rocke_cupy.emulator.program import Kernel, Program
from rocke_cupy.emulator.timing.replay import Tables


def launch(
    program: Program,
    kernel_name: str,
    grid: Sequence[int],
    block: Sequence[int],
    kernarg: bytes,
    buffers: Sequence[Buffer],
    *,
    shared_mem: int = 0,
    stack_size: int = STACK_SIZE,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """Execute a kernel.

    Parameters
    ----------
    program : Program
        From `rocke_cupy.emulator.load`.
    kernel_name : str
        The kernel's name.
    grid, block : sequence of int
        Workgroups, and threads of a workgroup, in up to three dimensions.
    kernarg : bytes
        The arguments in the kernel's layout; hidden ones are filled in.
    buffers : sequence of Buffer
        All memory that the kernel may reach.
    shared_mem : int
        Bytes of dynamic LDS.
    stack_size : int
        Bytes of a lane's stack in kernels with recursion or calls through pointers, as
        hipLimitStackSize sets it.
    progress : callable, optional
        Called about five times a second with the finished and the total number of workgroups.
    **options
        The fields of `rocke_cupy.emulator.options.Options`.

    Returns
    -------
    Report

    Raises
    ------
    EmulationError
        If the kernel does something wrong or something that is not modelled.
    """
    how = Options(**options)
    kernel = kernel_of(program, kernel_name)
    dispatch = Dispatch.checked(kernel, grid, block, shared_mem, stack_size)
    ids = how.workgroup_ids(dispatch.workgroups)
    threads = how.thread_count(len(ids))
    started = time.perf_counter()
    host = HostCalls(dispatch.waves * threads) if kernel.takes(ARGUMENT) else None
    memory = _Memory(program, dispatch, kernarg, buffers, host)
    rules = tables_of(program, wait_states=how.hazards) if how.hazards or how.errata else None
    setup = Launch(
        **_of_program(program, kernel),
        **memory.table.fields,
        **_of_options(how),
        **(rules.fields if rules else {}),
        workgroups=ids.ctypes.data,
        n_workgroups=len(ids),
        threads=threads,
        initial_s=memory.scalars.ctypes.data,
        id_sgpr=tuple(memory.id_sgprs),
        grid=dispatch.grid,
        block=dispatch.block,
        lds_size=dispatch.lds_size,
        scratch_size=dispatch.scratch_size,
    )
    if host:
        setup.hostcall, setup.serve = host.address, host.serve
    tables = Tables(program, kernel, dispatch.waves, dispatch.lds_size) if how.timing else None
    if tables:
        setup.timed_instructions, setup.timing_model = tables.addresses
    with Machine(setup) as machine:
        machine.run(progress)
        machine.raise_fault(program, kernel, memory.table, host, rules)
        report = machine.report(program, dispatch, memory.table, started)
        if tables:
            report.timing = machine.timing(tables, dispatch.waves)
        return report


def kernel_of(program: Program, name: str) -> Kernel:
    """Return a kernel of a program by its name, or say which there are."""
    if name not in program.kernels:
        known = ", ".join(sorted(program.kernels)) or "none"
        raise ValueError(f"kernel={name!r} is not in the code object; it has {known}")
    return program.kernels[name]


def _of_program(program: Program, kernel: Kernel) -> dict[str, int]:
    """Return the fields of the core's launch that the code object decides."""
    if kernel.float_mode & 0xCC != 0xC0:
        raise EmulationError(
            f"kernel {kernel.name} flushes 16-bit or fp64 denormals, or does not round them to "
            "nearest: not modelled"
        )
    return {
        "code": program.records.ctypes.data,
        "n_code": len(program.records),
        "index_of_word": program.index_of_word.ctypes.data,
        "text_address": program.text_address,
        "text_words": len(program.code_object.text) // 4,
        "entry": program.entry(kernel),
        "n_vgprs": kernel.allocated_vgprs,
        "accum_offset": kernel.accum_offset,
        "mode": kernel.float_mode,
        "work_item_dims": kernel.work_item_dims,
    }


def _of_options(how: Options) -> dict[str, int]:
    return {
        "lazy": how.memory == "lazy",
        "races": 2 if how.races == "collect" else int(bool(how.races)),
        "equal_barriers": bool(how.equal_barriers),
        "written_lds": bool(how.written_lds),
        "hazards": bool(how.hazards),
        "errata": bool(how.errata),
        "schedule": SCHEDULES.index(how.schedule),
        "quantum": how.quantum,
        "seed": how.seed & 0xFFFFFFFFFFFFFFFF,
        "max_instructions": how.max_instructions,
    }


class _Memory:
    """What a launch can reach, and the registers that lead there; alive as long as it runs."""

    def __init__(
        self,
        program: Program,
        dispatch: Dispatch,
        kernarg: bytes,
        buffers: Sequence[Buffer],
        host: HostCalls | None,
    ) -> None:
        pointers = {**MISSING_POINTERS, ARGUMENT: host.address if host else 0}
        block = dispatch.argument_block(kernarg, pointers)
        self._arguments = _aligned_copy(block)
        self._packet = _aligned_copy(dispatch.packet(self._arguments.ctypes.data))
        self.scalars, self.id_sgprs = dispatch.initial_scalars(self._arguments, self._packet)
        self.table = BufferTable(
            [
                *buffers,
                Buffer(self._arguments.ctypes.data, len(block), "kernel arguments", writable=False),
                Buffer(self._packet.ctypes.data, 64, "dispatch packet", writable=False),
                Buffer(program.image.ctypes.data, program.image.size, "code object"),
                *([host.buffer] if host else []),
            ]
        )


_ALIGNED = 256  # bytes, so that lines of the timing model do not depend on the host


def _aligned_copy(data: bytes) -> np.ndarray:
    size = (len(data) + 63) // 64 * 64
    block = np.zeros(size + _ALIGNED, np.uint8)
    copy = block[-block.ctypes.data % _ALIGNED :][:size]
    copy[: len(data)] = np.frombuffer(data, np.uint8)
    return copy

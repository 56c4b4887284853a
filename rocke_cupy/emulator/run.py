"""Running a kernel: from NumPy arrays (`run`) or from raw arguments and buffers (`launch`)."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rocke_cupy.emulator import _core
from rocke_cupy.emulator.code_object import Kernel
from rocke_cupy.emulator.hostcall import ARGUMENT, HostCalls
from rocke_cupy.emulator.memory import (
    MISSING_POINTERS,
    STACK_SIZE,
    Buffer,
    BufferTable,
    Placement,
    buffer_of,
    dispatch_packet,
    fill_hidden,
    initial_scalars,
    scratch_bytes,
)
from rocke_cupy.emulator.program import Program, load
from rocke_cupy.emulator.report import EmulationError, Race, Report
from rocke_cupy.emulator.timing import Tables, Timing, collect

POISON = 0x7FF97FF9
"""What registers and LDS hold before anything is written: a NaN in fp32, fp64, fp16 and bf16."""

LDS_LIMIT = 163840
SCHEDULES = ("lockstep", "to_barrier", "random")
MEMORIES = ("eager", "lazy")
MAX_INSTRUCTIONS = 200_000_000
"""Instructions of one wave after which it is taken to hang."""

_SLICE = 0.2  # seconds in the core between looks at Ctrl-C
_ALONE = 0.005  # seconds of work below which starting threads costs more than it saves
_KINDS = (
    "other",
    "bounds",
    "race",
    "early",
    "barrier",
    "hang",
    "unknown",
    "lds_bounds",
    "scratch_bounds",
    "trap",
)

Progress = Callable[[int, int], None]


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
    memory: str = "lazy",
    schedule: str = "lockstep",
    quantum: int = 16,
    seed: int = 0,
    races: bool | str = True,
    equal_barriers: bool = False,
    workgroups: Iterable[int] | None = None,
    threads: int | None = None,
    timing: bool = False,
    progress: Progress | None = None,
    max_instructions: int = MAX_INSTRUCTIONS,
) -> Report:
    """Execute a kernel.

    Parameters
    ----------
    program : Program
        From `rocke_cupy.emulator.program.load`.
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
    memory : {"lazy", "eager"}
        Whether loads take effect at the wait that covers them, or at once.
    schedule : {"lockstep", "to_barrier", "random"}
        Waves take turns of `quantum` instructions; or run alone to the next barrier; or take turns
        of random length in random order (by `seed`).
    races : bool or "collect"
        Whether LDS races are an error, ignored, or listed in the report.
    equal_barriers : bool
        Whether it is an error if waves of a workgroup end after different numbers of barriers. A
        device lets them: its barrier waits for the waves that have not ended.
    workgroups : iterable of int, optional
        Linear ids of the workgroups to execute; all by default.
    threads : int, optional
        Host threads over which workgroups are spread; by default one for each processor.
    timing : bool
        Replay what each workgroup executed on the timing model; ``report.timing`` has the result.
    progress : callable, optional
        Called about five times a second with the finished and the total number of workgroups.
    max_instructions : int
        Limit for one wave.

    Returns
    -------
    Report

    Raises
    ------
    EmulationError
        If the kernel does something wrong or something that is not modelled.
    """
    kernel = _kernel(program, kernel_name)
    shape, threads_of = _three("grid", grid), _three("block", block)
    lds_size = _check_launch(
        kernel, shape, threads_of, shared_mem, memory, schedule, quantum, races
    )
    ids = _workgroup_ids(workgroups, shape)
    scratch_size = scratch_bytes(kernel, stack_size)
    waves = -(-threads_of[0] * threads_of[1] * threads_of[2] // _core.LANES)
    threads = max(1, min(threads or os.cpu_count() or 1, len(ids)))
    host = HostCalls(waves * threads) if kernel.takes(ARGUMENT) else None
    started = time.perf_counter()
    pointers = {**MISSING_POINTERS, ARGUMENT: host.address if host else 0}
    full = fill_hidden(kernel, kernarg, shape, threads_of, shared_mem, pointers)
    arguments = _aligned_copy(full)
    packet = _aligned_copy(
        dispatch_packet(kernel, shape, threads_of, lds_size, scratch_size, arguments.ctypes.data)
    )
    table = BufferTable(
        [
            *buffers,
            Buffer(arguments.ctypes.data, len(full), "kernel arguments", writable=False),
            Buffer(packet.ctypes.data, 64, "dispatch packet", writable=False),
            Buffer(program.image.ctypes.data, program.image.size, "code object"),
            *([host.buffer] if host else []),
        ]
    )
    scalars, id_sgprs = initial_scalars(kernel, arguments, packet, scratch_size, POISON)
    records = program.kernel_records(kernel)
    if kernel.float_mode & 0xCC != 0xC0:
        raise EmulationError(
            f"kernel {kernel.name} flushes 16-bit or fp64 denormals, or does not round them to "
            "nearest: not modelled"
        )
    setup = _core.Launch(
        code=records.ctypes.data,
        index_of_word=program.index_of_word.ctypes.data,
        text_address=program.text_address,
        text_words=len(program.code_object.text) // 4,
        n_code=len(records),
        **table.fields,
        workgroups=ids.ctypes.data,
        n_workgroups=len(ids),
        initial_s=scalars.ctypes.data,
        id_sgpr=tuple(id_sgprs),
        grid=shape,
        block=threads_of,
        entry=program.entry(kernel),
        n_vgprs=kernel.allocated_vgprs,
        lds_size=lds_size,
        scratch_size=scratch_size,
        mode=kernel.float_mode,
        lazy=memory == "lazy",
        races=2 if races == "collect" else int(bool(races)),
        equal_barriers=bool(equal_barriers),
        schedule=SCHEDULES.index(schedule),
        quantum=quantum,
        work_item_dims=kernel.work_item_dims,
        threads=threads,
        seed=seed & 0xFFFFFFFFFFFFFFFF,
        max_instructions=max_instructions,
    )
    if host:
        setup.hostcall, setup.serve = host.address, host.serve
    tables = Tables(program, kernel, waves, lds_size) if timing else None
    if tables:
        setup.timed_instructions, setup.timing_model = tables.addresses
    with _Machine(setup) as machine:
        machine.run(len(ids), progress)
        machine.raise_fault(program, kernel, table, host)
        report = machine.report(program, kernel, shape, threads_of, len(ids), started)
        if tables:
            report.timing = machine.timing(tables, waves)
        return report


class _Machine:
    """A machine of the core for the time of one launch."""

    def __init__(self, setup: _core.Launch) -> None:
        self._core = _core.library()
        self._setup = setup
        self._handle = self._core.rocke_create(ctypes.byref(setup))
        if not self._handle:
            raise MemoryError("no memory for the emulated workgroups")

    def __enter__(self) -> _Machine:
        return self

    def __exit__(self, *_: object) -> None:
        self._core.rocke_destroy(self._handle)

    def run(self, total: int, progress: Progress | None) -> None:
        """Work on all threads; this one returns from the core often, so that Ctrl-C is seen."""
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
                if progress:
                    progress(self._core.rocke_finished(self._handle), total)
            for thread in others:
                while thread.is_alive():
                    thread.join(_SLICE)
                    if progress:
                        progress(self._core.rocke_finished(self._handle), total)
        except BaseException:
            self._core.rocke_stop(self._handle)
            for thread in others:
                thread.join()
            raise

    def _work(self, number: int) -> None:
        while self._core.rocke_work(self._handle, number, _SLICE):
            pass

    def raise_fault(
        self, program: Program, kernel: Kernel, table: BufferTable, host: HostCalls | None
    ) -> None:
        """Turn a fault of the core into an exception with the program's lines."""
        if not (pointer := self._core.rocke_fault(self._handle)):
            return
        if host and host.error:
            raise host.error
        fault = pointer.contents
        kind = _KINDS[fault.kind]
        text = fault.text.decode()
        if kind == "unknown" and text == "not modelled":
            text = f"not modelled: {program.why_unknown(fault.pc)}"
        if kind == "bounds":
            text = f"{text} {table.explain(fault.address)}"
        if kind == "trap" and host and host.complaints:
            text = "\n".join(dict.fromkeys(host.complaints))
        if kind == "scratch_bounds" and kernel.dynamic_stack:
            text += ": the stack of a lane overflows (hipLimitStackSize)"
        place = f"kernel {kernel.name}, workgroup {fault.workgroup}, wave {fault.wave}"
        if fault.lane >= 0:
            place += f", lane {fault.lane}"
        lines = [f"{text}\n  in {place}", f"  at {program.describe(fault.pc)}"]
        if fault.other_pc >= 0:
            relation = {
                "race": f"with wave {fault.other_wave}",
                "hang": "looping from",
                "early": "loaded by",
            }
            lines.append(f"  {relation.get(kind, 'and')} {program.describe(fault.other_pc)}")
        if host and kind != "trap":
            lines += [f"  after {text}" for text in dict.fromkeys(host.complaints)]
        raise EmulationError(
            "\n".join(lines),
            kind,
            fault.pc,
            fault.other_pc,
            fault.wave,
            fault.lane,
            fault.workgroup,
        )

    def timing(self, tables: Tables, waves: int) -> Timing:
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

    def _races(self, program: Program) -> list[Race]:
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
                        r.address,
                        r.count,
                    )
                )
        return found

    def report(
        self,
        program: Program,
        kernel: Kernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        workgroups: int,
        started: float,
    ) -> Report:
        """Collect what all threads counted."""
        code = self._setup.n_code
        waves = (block[0] * block[1] * block[2] + _core.LANES - 1) // _core.LANES
        totals = np.zeros(4, np.int64)
        for number in range(self._setup.threads):
            four = (ctypes.c_uint64 * 4)()
            self._core.rocke_bytes(self._handle, number, four)
            totals += np.array(four[:], np.int64)
        read, written, global_read, global_written = totals.tolist()
        return Report(
            program=program,
            kernel=kernel,
            grid=grid,
            block=block,
            workgroups=workgroups,
            counts=self._sum("rocke_counts", (waves, code)),
            bank_extra=self._sum("rocke_bank_extra", (code,)),
            bank_ideal=self._sum("rocke_bank_ideal", (code,)),
            unwritten_reads=self._sum("rocke_uninitialised", (code,)),
            races=self._races(program),
            lds_bytes=(read, written),
            global_bytes=(global_read, global_written),
            seconds=time.perf_counter() - started,
        )


# ---- checks ----


def _kernel(program: Program, name: str) -> Kernel:
    if name not in program.kernels:
        known = ", ".join(sorted(program.kernels)) or "none"
        raise ValueError(f"kernel={name!r} is not in the code object; it has {known}")
    return program.kernels[name]


def _three(name: str, values: Sequence[int]) -> tuple[int, int, int]:
    numbers = [int(v) for v in values]
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise ValueError(f"{name}={tuple(values)} must be one to three positive numbers")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _check_launch(
    kernel: Kernel,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_mem: int,
    memory: str,
    schedule: str,
    quantum: int,
    races: bool | str,
) -> int:
    """Refuse what a device would refuse, and return the LDS bytes of a workgroup."""
    threads = block[0] * block[1] * block[2]
    if threads > kernel.max_workgroup:
        raise ValueError(
            f"block={block} has {threads} threads; kernel {kernel.name} was compiled for at most "
            f"{kernel.max_workgroup}"
        )
    if grid[0] * grid[1] * grid[2] >= 1 << 32:
        raise ValueError(f"grid={grid} has 2**32 workgroups or more")
    lds_size = kernel.lds_size + shared_mem
    if shared_mem < 0 or lds_size > LDS_LIMIT:
        raise ValueError(
            f"shared_mem={shared_mem} and {kernel.lds_size} static bytes must be "
            f"at most {LDS_LIMIT}"
        )
    for name, value, allowed in (
        ("memory", memory, MEMORIES),
        ("schedule", schedule, SCHEDULES),
        ("races", races, (True, False, "collect")),
    ):
        if value not in allowed:
            raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")
    if quantum < 1:
        raise ValueError(f"quantum={quantum} must be at least 1")
    return lds_size


def _workgroup_ids(workgroups: Iterable[int] | None, grid: tuple[int, int, int]) -> np.ndarray:
    total = grid[0] * grid[1] * grid[2]
    if workgroups is None:
        return np.arange(total, dtype=np.uint32)
    chosen = np.array(list(workgroups), np.int64)
    if chosen.size and (chosen.min() < 0 or chosen.max() >= total):
        raise ValueError(f"workgroups must be linear ids below {total}")
    return chosen.astype(np.uint32)


def _aligned_copy(data: bytes) -> np.ndarray:
    size = (len(data) + 63) // 64 * 64
    block = np.zeros(size + 256, np.uint8)
    copy = block[-block.ctypes.data % 256 :][:size]
    copy[: len(data)] = np.frombuffer(data, np.uint8)
    return copy


# ---- NumPy arrays as arguments ----


def run(
    code_object: bytes | os.PathLike[str] | str,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any] | bytes,
    *,
    shared_mem: int = 0,
    stack_size: int = STACK_SIZE,
    memory: str = "lazy",
    schedule: str = "lockstep",
    quantum: int = 16,
    seed: int = 0,
    races: bool | str = True,
    equal_barriers: bool = False,
    workgroups: Iterable[int] | None = None,
    timing: bool = False,
    buffers: Sequence[np.ndarray] | None = None,
    threads: int | None = None,
    max_instructions: int = MAX_INSTRUCTIONS,
) -> Report:
    """Execute a kernel of a gfx950 code object on NumPy arrays.

    Parameters
    ----------
    code_object : bytes or path
        The ELF file.
    kernel : str
        The kernel's name.
    grid, block : sequence of int
        Workgroups, and threads of a workgroup.
    args : sequence or bytes
        For each argument a NumPy array (a device buffer with exact bounds, written in place), a
        NumPy scalar or zero-dimensional value of the argument's size, or None for a null pointer.
        Or one bytes object: the argument block itself. An array is an allocation of the device and
        starts a page there, wherever it lies here (but a view that starts amid 16 bytes does so).
    buffers : sequence of numpy.ndarray, optional
        Further memory that the kernel's pointers may reach, at its addresses in this process.

    Returns
    -------
    Report

    Notes
    -----
    The other parameters are those of `launch`.
    """
    code = code_object if isinstance(code_object, bytes) else Path(code_object).read_bytes()
    program = load(code)
    reached = [buffer_of(f"buffers[{k}]", array) for k, array in enumerate(buffers or ())]
    if isinstance(args, bytes):
        kernarg, placement = args, Placement(reached)
    else:
        kernarg, placement = _pack(_kernel(program, kernel), args, reached)
    return launch(
        program,
        kernel,
        grid,
        block,
        kernarg,
        placement.buffers,
        shared_mem=shared_mem,
        stack_size=stack_size,
        memory=memory,
        schedule=schedule,
        quantum=quantum,
        seed=seed,
        races=races,
        equal_barriers=equal_barriers,
        workgroups=workgroups,
        threads=threads,
        timing=timing,
        max_instructions=max_instructions,
    )


def _pack(kernel: Kernel, args: Sequence[Any], further: list[Buffer]) -> tuple[bytes, Placement]:
    """Return the argument block, and where the arrays in it and `further` memory lie."""
    explicit = [a for a in kernel.arguments if not a.kind.startswith("hidden_")]
    if len(args) != len(explicit):
        raise ValueError(f"kernel {kernel.name} takes {len(explicit)} arguments, got {len(args)}")
    names = [a.name or f"args[{number}]" for number, a in enumerate(explicit)]
    own = [buffer_of(n, v) for n, v in zip(names, args, strict=True) if _is_buffer(v)]
    placement = Placement([*own, *further])
    block = bytearray(kernel.kernarg_size)
    for name, argument, value in zip(names, explicit, args, strict=True):
        data = _argument_bytes(name, value, placement)
        if len(data) != argument.size:
            raise ValueError(
                f"{name} has {len(data)} bytes; kernel {kernel.name} takes {argument.size}"
            )
        block[argument.offset : argument.offset + argument.size] = data
    return bytes(block), placement


def _is_buffer(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _argument_bytes(name: str, value: Any, placement: Placement) -> bytes:
    if value is None:
        return bytes(8)
    if _is_buffer(value):
        return placement[value.ctypes.data].to_bytes(8, "little")
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return value.tobytes()
    raise TypeError(
        f"{name}={value!r} must be a NumPy array, a NumPy scalar, bytes or None: "
        "its size is what the kernel reads"
    )

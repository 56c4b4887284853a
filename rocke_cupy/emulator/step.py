"""One instruction on a given register state: how single instructions are checked."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rocke_cupy.emulator.assemble import assemble
from rocke_cupy.emulator.core.gfx950 import EXEC, LANES, M0, SGPRS, VCC, VGPRS
from rocke_cupy.emulator.core.layouts import Launch
from rocke_cupy.emulator.core.library import library
from rocke_cupy.emulator.execution.memory import Buffer, BufferTable
from rocke_cupy.emulator.execution.report import EmulationError
from rocke_cupy.emulator.program.decode import decode
from rocke_cupy.emulator.program.disassemble import disassemble
from rocke_cupy.emulator.program.operands import UnknownInstruction
from rocke_cupy.emulator.program.program import instruction_records

ACCUM_OFFSET = VGPRS // 2
"""Where `State.v` has the accumulation registers: a0 is row 256."""

FLUSH_FP32 = 0xC0
"""FLOAT_MODE of code that CuPy compiles: fp32 denormals flushed, the others kept."""

KEEP_DENORMALS = 0xF0
"""FLOAT_MODE that keeps all denormals."""

SCC = SGPRS
"""Where `State.s` has SCC."""

_NAMES = {"vcc": VCC, "m0": M0, "exec": EXEC}


def _all_lanes_on() -> np.ndarray:
    scalars = np.zeros(SCC + 1, np.uint32)
    scalars[EXEC : EXEC + 2] = 0xFFFFFFFF
    return scalars


@dataclass
class State:
    """Registers and LDS of one wave.

    Attributes
    ----------
    s : numpy.ndarray
        128 scalar registers by hardware number, then SCC. EXEC starts with all lanes on.
    v : numpy.ndarray
        512 vector registers of 64 lanes, uint32; the accumulation registers from 256 on.
    lds : numpy.ndarray
        Bytes of LDS.
    """

    s: np.ndarray = field(default_factory=_all_lanes_on)
    v: np.ndarray = field(default_factory=lambda: np.zeros((VGPRS, LANES), np.uint32))
    lds: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint8))

    def set64(self, register: str | int, value: int) -> None:
        """Set a pair of scalar registers: a number, or "vcc" or "exec"."""
        index = _NAMES[register] if isinstance(register, str) else register
        self.s[index], self.s[index + 1] = value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF

    def get64(self, register: str | int) -> int:
        """Return a pair of scalar registers."""
        index = _NAMES[register] if isinstance(register, str) else register
        return int(self.s[index]) | int(self.s[index + 1]) << 32

    def floats(self, register: int) -> np.ndarray:
        """Return a vector register as fp32; writing to it writes the register."""
        return self.v[register].view(np.float32)


def step(
    instruction: str | bytes,
    state: State,
    *,
    mode: int = FLUSH_FP32,
    buffers: Sequence[Buffer] = (),
) -> int:
    """Execute one instruction, including the memory it waits for.

    Parameters
    ----------
    instruction : str or bytes
        Assembly text or machine code.
    state : State
        Changed in place.
    mode : int
        FLOAT_MODE.
    buffers : sequence of Buffer
        Global memory.

    Returns
    -------
    int
        Bytes from this instruction to the next one executed.
    """
    code = assemble(instruction) if isinstance(instruction, str) else instruction
    lines = disassemble(code)
    records, unknown = instruction_records(lines)
    if unknown:
        raise UnknownInstruction(unknown[0])
    branch = decode(lines[0]).branch
    if branch is not None:
        records["target"][0] = 2  # any record but the next one
    table = BufferTable(buffers)
    arrays = [np.zeros(1, np.uint32), np.zeros(SGPRS, np.uint32), np.zeros(4, np.int32)]
    setup = Launch(
        code=records.ctypes.data,
        n_code=len(records),
        workgroups=arrays[0].ctypes.data,
        n_workgroups=1,
        initial_s=arrays[1].ctypes.data,
        index_of_word=arrays[2].ctypes.data,
        **table.fields,
        id_sgpr=(-1, -1, -1),
        grid=(1, 1, 1),
        block=(LANES, 1, 1),
        n_vgprs=VGPRS,
        accum_offset=ACCUM_OFFSET,
        lds_size=len(state.lds),
        mode=mode,
        quantum=1,
        threads=1,
        max_instructions=2,
    )
    core = library()
    machine = core.rocke_create(ctypes.byref(setup))
    try:
        pointers = (array.ctypes.data for array in (state.s, state.v, state.lds))
        following = core.rocke_step(machine, *pointers)
        if fault := core.rocke_fault(machine):
            raise EmulationError(fault.contents.text.decode(), lane=fault.contents.lane)
    finally:
        core.rocke_destroy(machine)
    taken = branch is not None and following != 1
    return lines[0].size + (4 * branch if taken and branch is not None else 0)

"""Instructions by kind, and how often each kind is executed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rocke_cupy.emulator.core.numbers import VGPR
from rocke_cupy.emulator.execution.report import Report
from rocke_cupy.emulator.program import Program
from rocke_cupy.emulator.program.decoded import find_op
from rocke_cupy.emulator.program.waits import Wait

KINDS = {
    "mfma": "matrix instructions",
    "valu": "vector ALU, neither matrix nor transcendental",
    "trans": "exp, log, rcp, rsq, sqrt, sin, cos",
    "lds_read": "LDS reads",
    "lds_write": "LDS writes and atomics",
    "dma": "global memory to LDS",
    "vmem": "other vector memory",
    "smem": "scalar memory",
    "salu": "scalar ALU and branches",
    "waitcnt": "s_waitcnt",
    "nop": "s_nop",
    "barrier": "s_barrier",
    "setprio": "s_setprio",
}

_BY_UNIT = {
    "mfma": "mfma", "valu": "valu", "trans": "trans", "lds_dma": "dma", "vmem": "vmem",
    "smem": "smem", "salu": "salu", "branch": "salu", "wait": "waitcnt", "barrier": "barrier",
}  # fmt: skip
_BY_NAME = {"s_nop": "nop", "s_setprio": "setprio"}


def kind_of(text: str) -> str:
    """Return the kind of an instruction, a key of `KINDS`.

    Parameters
    ----------
    text : str
        As LLVM prints it.
    """
    mnemonic = text.partition(" ")[0]
    if mnemonic in _BY_NAME:
        return _BY_NAME[mnemonic]
    unit = find_op(mnemonic).unit
    if unit == "lds":
        return "lds_read" if mnemonic.startswith("ds_read") else "lds_write"
    if unit == "vmem" and " lds" in text:
        return "dma"
    return _BY_UNIT[unit]


@functools.cache
def _kinds(program: Program) -> list[str]:
    return ["" if i.unknown else kind_of(i.text) for i in program.instructions]


@dataclass(frozen=True)
class LdsRead:
    """The LDS reads of one mnemonic, per wave and unit of work.

    Attributes
    ----------
    count : float
    cycles, lost : float
        LDS cycles that one of them takes without bank conflicts, and that conflicts add.
    address_registers : int
        Distinct registers that they take their addresses from.
    immediate : bool
        Nothing computes an address: no instruction of the region writes those registers.
    """

    count: float
    cycles: float
    lost: float
    address_registers: int
    immediate: bool


@dataclass(frozen=True)
class LdsSite:
    """One LDS read of the code, per wave and unit of work.

    Attributes
    ----------
    offset : int
        Where it lies, in bytes from the start of .text.
    text : str
        As LLVM prints it.
    count : float
    cycles, lost : float
        LDS cycles that one execution takes without bank conflicts, and that conflicts add.
    """

    offset: int
    text: str
    count: float
    cycles: float
    lost: float


@dataclass(frozen=True)
class Mix:
    """Executed instructions of a region, per wave and unit of work.

    Attributes
    ----------
    kinds : mapping of str to float
        Executions of each kind of `KINDS`.
    mnemonics : mapping of str to float
        Executions of each mnemonic, most frequent first.
    vmcnt0 : float
        `s_waitcnt` that wait for all vector memory operations.
    nop_states : float
        Wait states that the `s_nop` ask for.
    agpr_moves : float
        Moves to and from accumulation registers.
    lds_reads : mapping of str to LdsRead
        By mnemonic.
    lds_sites : list of LdsSite
        Each LDS read by itself, in the order of the code.
    """

    kinds: Mapping[str, float]
    mnemonics: Mapping[str, float] = field(repr=False)
    vmcnt0: float
    nop_states: float
    agpr_moves: float
    lds_reads: Mapping[str, LdsRead]
    lds_sites: list[LdsSite] = field(repr=False)

    @property
    def total(self) -> float:
        """How many instructions there are of all kinds."""
        return sum(self.kinds.values())


def mix_between(short: Report, long: Report, units: float) -> Mix:
    """Return what one launch executed more than another, per wave and unit of work.

    Parameters
    ----------
    short, long : Report
        Launches of one kernel that differ in the work of a region.
    units : float
        Units of work, summed over the waves, that ``long`` did more.
    """
    program = long.program
    more = (long.per_instruction - short.per_instruction) / units
    extra = (long.bank_extra - short.bank_extra) / units
    ideal = (long.bank_ideal - short.bank_ideal) / units
    region = np.flatnonzero(more)
    kinds = dict.fromkeys(KINDS, 0.0)
    mnemonics: dict[str, float] = {}
    vmcnt0 = nop_states = 0.0
    for index in region:
        instruction, times = program.instructions[index], float(more[index])
        kind = _kinds(program)[index]
        kinds[kind] += times
        name = instruction.mnemonic
        mnemonics[name] = mnemonics.get(name, 0.0) + times
        immediate = int(program.records[index]["imm"])
        if kind == "waitcnt":
            vmcnt0 += times * (Wait.of(immediate).vmcnt == 0)
        if kind == "nop":
            nop_states += times * (immediate + 1)
    return Mix(
        kinds=kinds,
        mnemonics=dict(sorted(mnemonics.items(), key=lambda item: -item[1])),
        vmcnt0=vmcnt0,
        nop_states=nop_states,
        agpr_moves=sum(n for name, n in mnemonics.items() if name.startswith("v_accvgpr_")),
        lds_reads=_lds_reads(program, region, more, ideal, extra),
        lds_sites=[
            LdsSite(
                offset=program.instructions[k].offset,
                text=program.instructions[k].text,
                count=float(more[k]),
                cycles=float(ideal[k] / more[k]),
                lost=float(extra[k] / more[k]),
            )
            for k in region
            if _kinds(program)[k] == "lds_read"
        ],
    )


def _lds_reads(
    program: Program, region: np.ndarray, more: np.ndarray, ideal: np.ndarray, extra: np.ndarray
) -> dict[str, LdsRead]:
    written: set[int] = set()
    for index in region:
        for operand in program.records[index]["dst"]:
            if operand["kind"] == VGPR:
                first = int(operand["index"])
                written.update(range(first, first + int(operand["width"])))
    groups: dict[str, list[int]] = {}
    for index in region:
        if _kinds(program)[index] == "lds_read":
            groups.setdefault(program.instructions[index].mnemonic, []).append(int(index))
    reads = {}
    for name, members in groups.items():
        count = float(more[members].sum())
        addresses = {int(program.records[k]["src"][0]["index"]) for k in members}
        reads[name] = LdsRead(
            count=count,
            cycles=float(ideal[members].sum()) / count,
            lost=float(extra[members].sum()) / count,
            address_registers=len(addresses),
            immediate=not addresses & written,
        )
    return reads

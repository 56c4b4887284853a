"""What a launch did, and how it failed."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field

import numpy as np

from rocke_cupy.emulator.program import Kernel, Program
from rocke_cupy.emulator.timing.result import Timing


class EmulationError(RuntimeError):
    """A kernel did something wrong, or something that the emulator does not model.

    Attributes
    ----------
    kind : str
        "bounds", "race", "early", "barrier", "hang", "unknown", "lds_bounds", "scratch_bounds",
        "trap", "alignment", "unwritten", "hazard",
        "global_race" or "other".
    instruction, other : int
        Indices of the instructions it is about, or -1.
    wave, lane, workgroup : int
        Where it happened; lane is -1 when no single lane is meant.
    rule : str
        The number of the rule that a hazard breaks (`rocke_cupy.emulator.lint.RULES`), or empty.
    """

    def __init__(
        self,
        message: str,
        kind: str = "other",
        instruction: int = -1,
        other: int = -1,
        wave: int = -1,
        lane: int = -1,
        workgroup: int = -1,
        rule: str = "",
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.instruction = instruction
        self.other = other
        self.wave = wave
        self.lane = lane
        self.workgroup = workgroup
        self.rule = rule


@dataclass(frozen=True)
class Race:
    """Two accesses to LDS or global memory that nothing orders.

    Attributes
    ----------
    first, second : str
        The instruction that raced, and the one it raced with, described.
    waves : tuple of int
        Their waves.
    place : str
        The LDS byte address, in `workgroup`, or the place in a buffer.
    count : int
        How often this pair raced.
    """

    first: str
    second: str
    waves: tuple[int, int]
    workgroup: int
    place: str
    count: int


@dataclass(frozen=True)
class Region:
    """A basic block of the kernel that was executed.

    Attributes
    ----------
    instructions : range
        Its indices in the program.
    label : str
        Where it starts.
    entries, total : int
        How often waves entered it, and the instructions they executed in it.
    """

    instructions: range
    label: str
    entries: int
    total: int


@dataclass
class Report:
    """What a launch executed.

    Attributes
    ----------
    kernel : Kernel
    grid, block : tuple of int
    workgroups : int
        Workgroups executed.
    counts : numpy.ndarray
        Executions by wave of the workgroup and instruction: shape (waves, instructions).
    bank_extra, bank_ideal : numpy.ndarray
        LDS cycles by instruction: those lost to bank conflicts, and those without any.
    unwritten_reads : numpy.ndarray
        Reads of LDS that nothing had written, by instruction (dwords).
    races : list of Race
        Races, when they are collected and not raised.
    lds_bytes, global_bytes : tuple of int
        Bytes read and written.
    seconds : float
        Host time.
    timing : Timing, optional
        Modelled time, if the launch was asked for it.
    """

    program: Program = field(repr=False)
    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    workgroups: int
    counts: np.ndarray = field(repr=False)
    bank_extra: np.ndarray = field(repr=False)
    bank_ideal: np.ndarray = field(repr=False)
    unwritten_reads: np.ndarray = field(repr=False)
    races: list[Race]
    lds_bytes: tuple[int, int]
    global_bytes: tuple[int, int]
    seconds: float
    timing: Timing | None = None

    @property
    def total(self) -> int:
        """How many instructions all waves executed."""
        return int(self.counts.sum())

    @property
    def per_wave(self) -> np.ndarray:
        """How many instructions each wave of a workgroup executed, over all workgroups."""
        return self.counts.sum(axis=1)

    @property
    def per_instruction(self) -> np.ndarray:
        """How often each instruction of the program was executed."""
        return self.counts.sum(axis=0)

    @property
    def instructions(self) -> dict[str, int]:
        """How often each mnemonic was executed, most frequent first."""
        totals: dict[str, int] = {}
        executed = self.per_instruction
        for index in np.flatnonzero(executed):
            name = self.program.instructions[index].mnemonic
            totals[name] = totals.get(name, 0) + int(executed[index])
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    @property
    def regions(self) -> list[Region]:
        """The executed basic blocks, in the order of the program."""
        executed = self.per_instruction
        found = []
        for block in self.program.blocks:
            if total := int(executed[block.start : block.stop].sum()):
                offset = self.program.instructions[block.start].offset
                entries = int(executed[block.start])
                found.append(Region(block, self.program.label(offset), entries, total))
        return found

    def count(self, pattern: str) -> int:
        """Count executions of the mnemonics that match a pattern.

        Parameters
        ----------
        pattern : str
            As in a shell: ``"v_mfma_*"``.
        """
        return sum(n for name, n in self.instructions.items() if fnmatch.fnmatchcase(name, pattern))

    @property
    def bank_conflicts(self) -> dict[str, int]:
        """LDS cycles lost to bank conflicts, for each instruction that lost any."""
        found = np.flatnonzero(self.bank_extra)
        return {self.program.describe(int(k)): int(self.bank_extra[k]) for k in found}

    def __str__(self) -> str:
        ideal, extra = int(self.bank_ideal.sum()), int(self.bank_extra.sum())
        lines = [
            f"{self.kernel.name}  grid {self.grid}  block {self.block}: {self.workgroups} "
            f"workgroups, {self.total:,} wave instructions in {self.seconds:.2f} s",
            f"LDS     {self.lds_bytes[0]:,} bytes read, {self.lds_bytes[1]:,} written; "
            f"{ideal:,} cycles, {extra:,} more for bank conflicts",
            f"global  {self.global_bytes[0]:,} bytes read, {self.global_bytes[1]:,} written",
        ]
        if self.timing:
            lines.append(str(self.timing.pace))
        lines.append("instructions")
        lines += [f"  {n:>12,}  {name}" for name, n in self.instructions.items()]
        lines.append("regions (instructions executed, entries, length)")
        lines += [
            f"  {r.total:>12,}  {r.entries:>10,}  {len(r.instructions):>5}  {r.label}"
            for r in self.regions
        ]
        if conflicts := self.bank_conflicts:
            lines.append("bank conflicts (cycles lost)")
            lines += [f"  {n:>12,}  {where}" for where, n in conflicts.items()]
        if unwritten := np.flatnonzero(self.unwritten_reads).tolist():
            lines.append("reads of LDS that nothing had written (dwords)")
            lines += [
                f"  {int(self.unwritten_reads[k]):>12,}  {self.program.describe(k)}"
                for k in unwritten
            ]
        if self.races:
            lines.append("races")
            for race in self.races:
                lines.append(
                    f"  {race.count:>12,}  waves {race.waves[0]} and {race.waves[1]}, "
                    f"{race.place}, workgroup {race.workgroup}\n"
                    f"                {race.first}\n                {race.second}"
                )
        return "\n".join(lines)

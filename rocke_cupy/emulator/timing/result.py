"""What the timing model tells of a launch."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from rocke_cupy.emulator.program import Program
from rocke_cupy.emulator.timing.constants import constants

UNITS: Mapping[str, str] = {
    "mfma": "matrix pipe",
    "vector": "vector issue",
    "scalar": "scalar issue",
    "lds": "LDS",
    "memory": "path to memory",
}
_PER_SIMD = ("mfma", "vector", "scalar")


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
        """The pace of a workgroup, on the mean."""
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

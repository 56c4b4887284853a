"""How a launch is executed: what does not change its results if the kernel is right."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rocke_cupy.emulator.core.numbers import SCHEDULES

MEMORIES = ("lazy", "eager")

MAX_INSTRUCTIONS = 200_000_000
"""Instructions of one wave after which it is taken to hang."""


@dataclass(frozen=True)
class Options:
    """How a launch is executed.

    Parameters
    ----------
    memory : {"lazy", "eager"}
        Whether loads take effect at the wait that covers them, or at once.
    schedule : {"lockstep", "to_barrier", "random"}
        Waves take turns of `quantum` instructions; or run alone to the next barrier; or take turns
        of random length in random order (by `seed`).
    quantum, seed : int
        Of the schedule.
    races : bool or "collect"
        Whether races in LDS and global memory are an error, ignored, or listed in the report.
    equal_barriers : bool
        Whether it is an error if waves of a workgroup end after different numbers of barriers. A
        device lets them: its barrier waits for the waves that have not ended.
    written_lds : bool
        Whether it is an error to read LDS that nothing has written. A device lets a kernel, and
        compilers read ahead what they may throw away. It needs the race checks.
    hazards : bool
        Whether it is an error if an instruction comes sooner behind another than gfx950's rules on
        wait states allow.
    errata : bool
        Whether packed fp32 instructions that gfx950 is known to compute wrongly are so here, where
        the device may (rule R27 of the linter). A right program does not have them.
    workgroups : iterable of int, optional
        Linear ids of the workgroups to execute; all by default.
    threads : int, optional
        Host threads over which workgroups are spread; by default one for each processor.
    timing : bool
        Replay what each workgroup executed on the timing model; ``report.timing`` has the result.
    max_instructions : int
        Limit for one wave.

    Raises
    ------
    ValueError
        If one has a value that it cannot have.
    """

    memory: str = "lazy"
    schedule: str = "lockstep"
    quantum: int = 16
    seed: int = 0
    races: bool | str = True
    equal_barriers: bool = False
    written_lds: bool = False
    hazards: bool = True
    errata: bool = False
    workgroups: Iterable[int] | None = None
    threads: int | None = None
    timing: bool = False
    max_instructions: int = MAX_INSTRUCTIONS

    def __post_init__(self) -> None:
        for name, allowed in (
            ("memory", MEMORIES),
            ("schedule", SCHEDULES),
            ("races", (True, False, "collect")),
        ):
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}")
        if self.quantum < 1:
            raise ValueError(f"quantum={self.quantum} must be at least 1")
        if self.written_lds and not self.races:
            raise ValueError(
                "written_lds=True needs the race checks, and races=False turns them off"
            )
        if self.workgroups is not None:  # an iterator would be empty at the second launch
            object.__setattr__(self, "workgroups", tuple(self.workgroups))

    def workgroup_ids(self, total: int) -> np.ndarray:
        """Return the linear ids to execute, of `total`."""
        if self.workgroups is None:
            return np.arange(total, dtype=np.uint32)
        chosen = np.array(self.workgroups, np.int64)
        if chosen.size and (chosen.min() < 0 or chosen.max() >= total):
            raise ValueError(f"workgroups must be linear ids below {total}")
        return chosen.astype(np.uint32)

    def thread_count(self, workgroups: int) -> int:
        """Return how many threads so many workgroups are spread over."""
        return max(1, min(self.threads or os.cpu_count() or 1, workgroups))

"""What an s_waitcnt waits for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

VMCNT_MAX, LGKMCNT_MAX = 63, 15
"""Counts that wait for nothing: the counters cannot hold more."""

_LOOSER = (1, 2)  # and not at all


@dataclass(frozen=True)
class Wait:
    """The counts of an s_waitcnt.

    vmcnt is bits 3:0 and 15:14 of the immediate, expcnt 6:4, lgkmcnt 11:8.
    """

    vmcnt: int
    lgkmcnt: int
    expcnt: int = 7

    @classmethod
    def of(cls, immediate: int) -> Wait:
        """Read the counts off an immediate."""
        vmcnt = immediate & 15 | (immediate >> 14 & 3) << 4
        return cls(vmcnt, immediate >> 8 & 15, immediate >> 4 & 7)

    @property
    def immediate(self) -> int:
        """The immediate that has these counts."""
        low, high = self.vmcnt & 15, self.vmcnt >> 4
        return low | self.expcnt << 4 | self.lgkmcnt << 8 | high << 14

    def looser(self) -> Iterator[Wait]:
        """Yield the waits that let one more, two more, or all operations of one counter be open."""
        for more in _LOOSER:
            if self.vmcnt + more < VMCNT_MAX:
                yield Wait(self.vmcnt + more, self.lgkmcnt, self.expcnt)
        if self.vmcnt < VMCNT_MAX:
            yield Wait(VMCNT_MAX, self.lgkmcnt, self.expcnt)
        for more in _LOOSER:
            if self.lgkmcnt + more < LGKMCNT_MAX:
                yield Wait(self.vmcnt, self.lgkmcnt + more, self.expcnt)
        if self.lgkmcnt < LGKMCNT_MAX:
            yield Wait(self.vmcnt, LGKMCNT_MAX, self.expcnt)

    def before(self, other: Wait) -> Wait:
        """Return what this wait and one right behind it wait for together."""
        return Wait(min(self.vmcnt, other.vmcnt), min(self.lgkmcnt, other.lgkmcnt), self.expcnt)

    def change_to(self, other: Wait) -> str:
        """Say in which counter and how another wait differs."""
        for name, most in (("vmcnt", VMCNT_MAX), ("lgkmcnt", LGKMCNT_MAX)):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"{name}({mine}) -> {'no wait' if theirs == most else f'{name}({theirs})'}"
        return "no change"

"""The rules in the core's terms: what each instruction of a program uses and locks, as arrays."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np

from rocke_cupy.emulator.core.layouts import HAZARD_MARKS, HAZARD_SPAN
from rocke_cupy.emulator.core.numbers import (
    FOREVER_STATES,
    HAZARD_REGISTERS,
    MARK_ALL_LANES,
    MARK_MATRIX,
    MARK_MAY_TAKE_ZERO,
)
from rocke_cupy.emulator.hazards.operands import Register, Span, name_of
from rocke_cupy.emulator.hazards.rules import RULES
from rocke_cupy.emulator.hazards.wait_states import FOREVER, Chain, Marks, marks_of
from rocke_cupy.emulator.program import Program

_FIRST_NAMED = 640  # behind the v, a and s registers
_ALL_LANES_RULE = "R30"


class Tables:
    """Flat arrays of the marks of a program's instructions.

    Parameters
    ----------
    program : Program
    wait_states : bool
        Whether uses and locks are in the tables.

    Attributes
    ----------
    fields : dict of str to int
        Fields of the core's launch. The arrays live as long as this object.
    """

    def __init__(self, program: Program, *, wait_states: bool) -> None:
        self._numbers: dict[Register, int] = {}
        self._chains: dict[Chain, int] = {}
        texts = [instruction.text for instruction in program.instructions]
        known = {text: marks_of(text) for text in dict.fromkeys(texts)}
        self._ways = _ways(known.values()) if wait_states else []
        self._way_numbers = {way: number for number, way in enumerate(self._ways)}
        place = {text: number for number, text in enumerate(known)}
        rows: list[tuple[int, ...]] = []
        # The record behind the last instruction is for programs that run past it.
        marks = np.zeros(len(known) + 1, HAZARD_MARKS)
        for number, mark in enumerate(known.values()):
            marks[number] = self._mark(mark, rows)
        self._marks = marks[[*(place[text] for text in texts), len(known)]]
        self._spans = np.array(rows, HAZARD_SPAN)
        self.fields = {
            "hazard_marks": self._marks.ctypes.data,
            "hazard_spans": self._spans.ctypes.data,
            "hazard_ways": len(self._ways),
        }

    def _mark(self, mark: Marks, rows: list[tuple[int, ...]]) -> tuple[int, ...]:
        first = len(rows)
        for use in mark.uses:
            rows += self._rows(use.use, use.registers, use.chain)
        uses = len(rows) - first
        for lock in mark.locks:
            states = FOREVER_STATES if lock.states == FOREVER else lock.states
            rows += self._rows(lock.use, lock.registers, lock.chain, states, lock.chained)
        flags = (
            mark.multiplies * MARK_MATRIX
            + mark.needs_all_lanes * MARK_ALL_LANES
            + mark.may_take_zero * MARK_MAY_TAKE_ZERO
        )
        return first, uses, len(rows) - first - uses, mark.states, flags, 0

    def _rows(
        self, way: str, registers: Span, chain: Chain | None, states: int = 0, chained: int = 0
    ) -> Iterator[tuple[int, ...]]:
        if (number := self._way_numbers.get(way)) is None:
            return
        link = self._chains.setdefault(chain, len(self._chains) + 1) if chain else 0
        for first, count in _runs(map(self._number, registers)):
            yield number * HAZARD_REGISTERS + first, number, count, link, states, chained

    def _number(self, register: Register) -> int:
        if isinstance(register, int):
            return register
        return self._numbers.setdefault(register, _FIRST_NAMED + len(self._numbers))

    def rule(self, slot: int) -> str:
        """Return the number of the rule that a slot is for."""
        way = slot // HAZARD_REGISTERS
        return self._ways[way].partition(" ")[0] if way < len(self._ways) else _ALL_LANES_RULE

    def explain(self, slot: int, what: str) -> str:
        """Return a sentence about a broken rule.

        Parameters
        ----------
        slot : int
            The register and the way of using it.
        what : str
            What the core found.
        """
        rule = self.rule(slot)
        named = {number: name for name, number in self._numbers.items()}
        register = slot % HAZARD_REGISTERS
        place = "" if rule == _ALL_LANES_RULE else f"{name_of((named.get(register, register),))}: "
        return f"hazard {rule}: {RULES[rule].text}; {place}{what} [{RULES[rule].source}]"


@functools.lru_cache(64)
def tables_of(program: Program, *, wait_states: bool) -> Tables:
    """Return the tables of a program, made once."""
    return Tables(program, wait_states=wait_states)


def _ways(marks: Iterable[Marks]) -> list[str]:
    """Return the ways of using registers that some instruction has and another forbids."""
    marks = list(marks)
    locked = {lock.use for mark in marks for lock in mark.locks if lock.longest}
    return sorted(locked & {use.use for mark in marks for use in mark.uses if use.registers})


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield first number and length of each run of consecutive ones."""
    for _, run in groupby(enumerate(sorted(set(numbers))), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        yield members[0], len(members)

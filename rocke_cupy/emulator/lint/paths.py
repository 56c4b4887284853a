"""Wait states between dependent instructions, on the shortest of all ways through the code."""

from __future__ import annotations

from collections.abc import Callable

from rocke_cupy.emulator.hazards.operands import Register, name_of
from rocke_cupy.emulator.hazards.wait_states import FOREVER, LONGEST, Lock, Use, marks_of
from rocke_cupy.emulator.lint.findings import Finding, finding_at
from rocke_cupy.emulator.lint.graph import Graph, fixed_point
from rocke_cupy.emulator.program import Program

_Key = tuple[str, Register]
_Held = dict[int, tuple[int, Lock]]
"""By the instruction that put it: wait states since, and the lock."""
_State = dict[_Key, _Held]
_Report = Callable[[int, Use, Register, int, int, Lock], None]


def too_few_states(program: Program, graph: Graph) -> list[Finding]:
    """Return the places that come too soon behind an instruction, on any way."""
    texts = [instruction.text for instruction in program.instructions]

    def through(block: range, state: _State) -> _State:
        return _follow(texts, block, state)

    states = fixed_point(graph, lambda _: {}, through, _join)
    worst: dict[tuple[int, str], tuple[int, int, int, Register]] = {}

    def report(
        index: int, use: Use, register: Register, first: int, since: int, lock: Lock
    ) -> None:
        needed = use.needs(lock)
        found = worst.get((index, lock.rule))
        if found is None or needed - since > found[1] - found[0]:
            worst[index, lock.rule] = since, needed, first, register

    for number, state in states.items():
        _follow(texts, graph.blocks[number], state, report)
    return [
        _finding(program, index, rule, *found) for (index, rule), found in sorted(worst.items())
    ]


def _follow(
    texts: list[str], block: range, before: _State, report: _Report | None = None
) -> _State:
    """Execute a block, and report each use of a register that is still locked."""
    # Within the block the time at which a lock was put is kept, not the states since.
    held: _State = {
        key: {first: (-since, lock) for first, (since, lock) in locks.items()}
        for key, locks in before.items()
    }
    now = 0
    for index in block:
        marks = marks_of(texts[index])
        if report:
            for use in marks.uses:
                for register in use.registers:
                    for first, (start, lock) in held.get((use.use, register), {}).items():
                        if now - start < use.needs(lock):
                            report(index, use, register, first, now - start, lock)
        now += marks.states
        for lock in marks.locks:
            for register in lock.registers:
                held[lock.use, register] = {index: (now, lock)}
    return {key: kept for key, locks in held.items() if (kept := _still_held(locks, now))}


def _still_held(locks: _Held, now: int) -> _Held:
    return {
        first: (min(now - start, LONGEST), lock)
        for first, (start, lock) in locks.items()
        if now - start < lock.longest
    }


def _join(one: _State, other: _State) -> _State:
    joined = dict(one)
    for key, locks in other.items():
        merged = dict(joined.get(key, {}))
        for first, (since, lock) in locks.items():
            known = merged.get(first)
            merged[first] = (since if known is None else min(since, known[0]), lock)
        joined[key] = merged
    return joined


def _finding(
    program: Program, index: int, rule: str, since: int, needed: int, first: int, register: Register
) -> Finding:
    name, behind = name_of((register,)), f"behind {program.describe(first)}"
    if needed >= FOREVER:
        return finding_at(program, index, rule, f"{name} is as it was before, {behind}")
    message = f"{name}: {since} of {needed} wait states {behind}"
    return finding_at(program, index, rule, message, states=since, needed=needed)

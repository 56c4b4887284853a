"""Whether EXEC is proved to be all ones where an instruction needs that.

Transposed LDS reads move data between lanes, so every lane has to take part. Branches save EXEC in
scalar registers and restore it; what is tracked is which pairs of such masks cover all lanes
together. A mask that covers all lanes by itself is a pair with itself.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from rocke_cupy.emulator.hazards.operands import EXEC, Register, Span, access_of, is_scalar
from rocke_cupy.emulator.hazards.single import needs_all_lanes
from rocke_cupy.emulator.lint.findings import Finding, finding_at
from rocke_cupy.emulator.lint.graph import Graph, fixed_point
from rocke_cupy.emulator.program import Program
from rocke_cupy.emulator.program.text import split

_Facts = frozenset[frozenset[Span]]
_ALL, _UNKNOWN, _SAVED, _GIVEN = ("all",), ("unknown",), ("saved",), ("given",)
"""Masks that are in no register: constant, not known, and within one instruction."""

_CALLS = ("s_swappc_b64", "s_call_b64")
_AT_START: _Facts = frozenset([frozenset([EXEC])])


def partial_exec(program: Program, graph: Graph) -> list[Finding]:
    """Return the instructions that need all lanes, where EXEC is not proved to have them.

    A kernel is assumed to be launched with whole waves.
    """
    texts = [instruction.text for instruction in program.instructions]
    if not any(needs_all_lanes(text.partition(" ")[0]) for text in texts):
        return []

    def at_entry(number: int) -> _Facts:
        return _AT_START if number in graph.kernel_entries else frozenset()

    def through(block: range, facts: _Facts) -> _Facts:
        return functools.reduce(_after, (texts[index] for index in block), facts)

    found = []
    for number, facts in fixed_point(graph, at_entry, through, frozenset.intersection).items():
        for index in graph.blocks[number]:
            needs_all = needs_all_lanes(texts[index].partition(" ")[0])
            if needs_all and not _cover(facts, EXEC, EXEC):
                found.append(
                    finding_at(program, index, "R30", "it may have lost lanes on some way")
                )
            facts = _after(facts, texts[index])
    return found


def _cover(facts: _Facts, a: Span, b: Span) -> bool:
    """Whether two masks have all lanes together."""
    if _ALL in (a, b):
        return True
    return not facts.isdisjoint((frozenset([a]), frozenset([b]), frozenset([a, b])))


_OPERATION = re.compile(
    r"s_(?P<name>mov|not|or|and|xor|andn2|orn2)(?P<exec>_saveexec|_wrexec)?_b64$"
)


def _after(facts: _Facts, text: str) -> _Facts:
    """Return what holds behind an instruction."""
    access = access_of(text)
    if access.mnemonic in _CALLS:
        return frozenset()
    written = {register for span in access.writes for register in span if is_scalar(register)}
    if not written:
        return facts
    operation = _OPERATION.match(access.mnemonic)
    if operation is None:
        return _without(facts, written)
    masks = [_mask(word) for word in split(text)[1][1:]]
    (result,) = access.writes[:1]
    if operation["exec"] is None:
        return _assign(facts, result, operation["name"], masks)
    facts = _assign(facts, _SAVED, "mov", [EXEC])
    facts = _assign(facts, _GIVEN, "mov", masks)
    facts = _assign(facts, EXEC, operation["name"], [_GIVEN, _SAVED])
    kept = _SAVED if operation["exec"] == "_saveexec" else EXEC
    facts = _assign(facts, result, "mov", [kept])
    return _without(facts, {*_SAVED, *_GIVEN})


def _mask(operand: str) -> Span:
    if operand == "-1":
        return _ALL
    span = access_of(f"s_mov_b64 s[0:1], {operand}").sources[0]
    return span if len(span) == 2 else _UNKNOWN


def _without(facts: _Facts, registers: AbstractSet[Register]) -> _Facts:
    return frozenset(fact for fact in facts if all(registers.isdisjoint(mask) for mask in fact))


def _assign(facts: _Facts, result: Span, name: str, masks: list[Span]) -> _Facts:
    """Return what holds after ``result = name(masks)``."""
    a, b = (*masks, _UNKNOWN)[:2]
    covers, whole = _MEANING[name]
    others = {mask for fact in facts for mask in fact} | {a, b}
    kept = _without(facts, set(result))
    found = {
        frozenset([result, other])
        for other in others - {_UNKNOWN, _ALL}
        if not set(result) & set(other) and covers(facts, a, b, other)
    }
    if whole(facts, a, b):
        found.add(frozenset([result]))
    return kept | found


_Covers = Callable[[_Facts, Span, Span, Span], bool]
_Whole = Callable[[_Facts, Span, Span], bool]
# When the result covers all lanes together with z, and when it does alone.
_MEANING: dict[str, tuple[_Covers, _Whole]] = {
    "mov": (
        lambda facts, a, b, z: _cover(facts, a, z),
        lambda facts, a, b: _cover(facts, a, a),
    ),
    "not": (lambda facts, a, b, z: z == a, lambda facts, a, b: False),
    "or": (
        lambda facts, a, b, z: _cover(facts, a, z) or _cover(facts, b, z),
        lambda facts, a, b: _cover(facts, a, b),
    ),
    "and": (
        lambda facts, a, b, z: _cover(facts, a, z) and _cover(facts, b, z),
        lambda facts, a, b: _cover(facts, a, a) and _cover(facts, b, b),
    ),
    "xor": (
        lambda facts, a, b, z: z in (a, b) and _cover(facts, a, b),
        lambda facts, a, b: False,
    ),
    "andn2": (
        lambda facts, a, b, z: z == b and _cover(facts, a, b),
        lambda facts, a, b: False,
    ),
    "orn2": (
        lambda facts, a, b, z: z == b or _cover(facts, a, z),
        lambda facts, a, b: _cover(facts, a, a),
    ),
}

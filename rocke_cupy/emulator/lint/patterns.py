"""Single instructions that must not be."""

from __future__ import annotations

from rocke_cupy.emulator.hazards.operands import access_of, is_vector, name_of
from rocke_cupy.emulator.hazards.single import may_take_zero
from rocke_cupy.emulator.lint.findings import Finding, finding_at
from rocke_cupy.emulator.lint.graph import Graph
from rocke_cupy.emulator.program import Program


def packed_from_high_half(program: Program, graph: Graph) -> list[Finding]:
    """Return packed fp32 instructions whose low half may be computed with 0 in place of src1."""
    return [
        finding_at(program, instruction.index, "R27", "exchange the first two sources")
        for instruction in program.instructions
        if may_take_zero(access_of(instruction.text))
    ]


def odd_tuples(program: Program, graph: Graph) -> list[Finding]:
    """Return instructions with a vector register tuple that starts at an odd number."""
    found = []
    for instruction in program.instructions:
        access = access_of(instruction.text)
        for span in dict.fromkeys((*access.writes, *access.reads)):
            first = span[0]
            if len(span) > 1 and isinstance(first, int) and is_vector(first) and first % 2:
                found.append(finding_at(program, instruction.index, "R28", name_of(span)))
    return found


def no_instructions(program: Program, graph: Graph) -> list[Finding]:
    """Return what is no instruction although code leads to it."""
    return [
        finding_at(program, index, "R31", "a kernel or function comes here")
        for number in graph.reachable()
        for index in graph.blocks[number]
        if program.instructions[index].mnemonic == ".long"
    ]

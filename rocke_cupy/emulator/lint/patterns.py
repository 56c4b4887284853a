"""Single instructions that must not be."""

from __future__ import annotations

from rocke_cupy.emulator.lint.findings import Finding, finding_at
from rocke_cupy.emulator.lint.graph import Graph
from rocke_cupy.emulator.lint.operands import access_of, bits, is_vector, name_of
from rocke_cupy.emulator.program import Program

_PACKED_FP32 = ("v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32")


def packed_from_high_half(program: Program, graph: Graph) -> list[Finding]:
    """Return packed fp32 instructions whose low half may be computed with 0 in place of src1."""
    found = []
    for instruction in program.instructions:
        access = access_of(instruction.text)
        if access.mnemonic not in _PACKED_FP32 or not access.sources[1]:
            continue
        low_halves = bits(access.modifiers.get("op_sel", "[0,0]"))[:2]
        if low_halves == [0, 1] and is_vector(access.sources[1][0]):
            found.append(
                finding_at(program, instruction.index, "R27", "exchange the first two sources")
            )
    return found


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

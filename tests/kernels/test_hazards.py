"""What gfx950 does wrong, or expects of the code, that neither compiler sees to everywhere."""

import re

from helpers import code_objects

from rocke_cupy.emulator import load
from rocke_cupy.emulator.decode import VGPR


@code_objects.each
def test_no_packed_addition_of_halves_turned_round(name, rocm):
    """A low half that takes the high half of the second operand may count that one as 0.

    It happens while a matrix instruction is under way on the compute unit (ROCm/rocMLIR PR 2459).
    """
    turned = re.compile(r"v_pk_(add|mul|fma)_f32 .*op_sel:\[0,1")
    found = [i.text for i in load(code_objects.compiled(name, rocm)).instructions]
    assert not [text for text in found if turned.match(text)]


MATRIX_STATES = 12
"""From a 32x32x16 matrix instruction (8 passes) to a vector instruction on its result."""


@code_objects.each
def test_matrix_results_rest_before_vector_instructions(name, rocm):
    """LLVM counts along one of several ways to an instruction, which may be the longer one."""
    program = load(code_objects.compiled(name, rocm))
    for instruction in program.instructions:
        if "mfma" in instruction.mnemonic:
            (result,) = registers(program, instruction.index, "dst")
            for index, states in followers(program, instruction.index, MATRIX_STATES):
                other = program.instructions[index]
                touched = registers(program, index, "dst") + registers(program, index, "src")
                assert "mfma" in other.mnemonic or not any(
                    result.start < r.stop and r.start < result.stop for r in touched
                ), f"{states} states from {instruction.text} to {other.text}"


def registers(program, index, side):
    """Return the ranges of vector registers that an instruction writes or reads."""
    operands = program.records[side][index]
    return [range(o["index"], o["index"] + o["width"]) for o in operands if o["kind"] == VGPR]


def followers(program, index, states):
    """Return the instructions that may come less than so many wait states later, by every way."""
    found, ways = [], [(index + 1, 0)]
    while ways:
        at, waited = ways.pop()
        if waited >= states or at >= len(program.instructions):
            continue
        found.append((at, waited))
        text = program.instructions[at].text
        waited += int(text.split()[1], 0) + 1 if text.startswith("s_nop") else 1
        if "branch" in text:
            ways.append((int(program.records["target"][at]), waited))
        if not text.startswith(("s_branch", "s_endpgm")):
            ways.append((at + 1, waited))
    return found

"""What gfx950 does wrong, or expects of the code, that neither compiler sees to everywhere."""

import re

from helpers import code_objects

from rocke_cupy.emulator import load


@code_objects.each
def test_no_packed_addition_of_halves_turned_round(name, rocm):
    """A low half that takes the high half of the second operand may count that one as 0.

    It happens while a matrix instruction is under way on the compute unit (ROCm/rocMLIR PR 2459).
    """
    turned = re.compile(r"v_pk_(add|mul|fma)_f32 .*op_sel:\[0,1")
    found = [i.text for i in load(code_objects.compiled(name, rocm)).instructions]
    assert not [text for text in found if turned.match(text)]

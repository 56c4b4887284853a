"""What gfx950 does wrong, or expects of the code, that neither compiler sees to everywhere."""

from helpers import code_objects

from rocke_cupy.emulator.lint import check


@code_objects.each
def test_the_linter_finds_nothing(name, compiler):
    """Its rules hold over each kernel, for example these, which once did not.

    R27: the low half of a packed addition may count its second operand as 0. R15: LLVM counts the
    wait states behind a matrix instruction along one of several ways. R30: transposed reads need
    all lanes.
    """
    assert check(code_objects.compiled(name, compiler)) == []

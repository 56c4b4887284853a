"""What gfx950 does wrong, or expects of the code, that neither compiler sees to everywhere."""

import numpy as np
import pytest
from helpers import code_objects
from helpers.emulated import attend
from helpers.problems import Case

from rocke_cupy.emulator.lint import check
from rocke_cupy.emulator.rocm.tools import VERSIONS


@code_objects.each
def test_the_linter_finds_nothing(name, compiler):
    """Its rules hold over each kernel, for example these, which once did not.

    R27: the low half of a packed addition may count its second operand as 0. R15: LLVM counts the
    wait states behind a matrix instruction along one of several ways. R30: transposed reads need
    all lanes.
    """
    assert check(code_objects.compiled(name, compiler)) == []


@pytest.mark.parametrize("rocm", VERSIONS)
@pytest.mark.parametrize("feature", ["causal", "window both sides", "packed heads", "streaming"])
def test_what_the_device_may_compute_wrongly_is_in_no_result(feature, rocm):
    """Execution checks the rules on the path that it takes, too."""
    case = Case(300, 300, 4, 2, 128, causal=False)
    fields = code_objects.FEATURES[feature]
    plain = attend(case, rocm, errata=False, **fields)
    wrong = attend(case, rocm, errata=True, **fields)
    for one, other in zip(plain[:2], wrong[:2], strict=True):
        assert np.array_equal(one.view(np.uint8), other.view(np.uint8))

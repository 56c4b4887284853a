"""All rules over a code object."""

from __future__ import annotations

from collections.abc import Callable

from rocke_cupy.emulator.lint.clauses import unsafe_runs
from rocke_cupy.emulator.lint.descriptor import wrong_descriptors
from rocke_cupy.emulator.lint.findings import Finding
from rocke_cupy.emulator.lint.full_exec import partial_exec
from rocke_cupy.emulator.lint.graph import Graph, graph_of
from rocke_cupy.emulator.lint.paths import too_few_states
from rocke_cupy.emulator.lint.patterns import no_instructions, odd_tuples, packed_from_high_half
from rocke_cupy.emulator.program import Program, load

_CHECKS: tuple[Callable[[Program, Graph], list[Finding]], ...] = (
    wrong_descriptors,
    no_instructions,
    too_few_states,
    packed_from_high_half,
    odd_tuples,
    unsafe_runs,
    partial_exec,
)


def check(code: bytes | Program) -> list[Finding]:
    """Return what a code object does that hardware does not promise to get right.

    Parameters
    ----------
    code : bytes or Program
        The ELF file, or what `rocke_cupy.emulator.load` made of it.

    Returns
    -------
    list of Finding
        By rule, in the order of the code.

    Raises
    ------
    CodeObjectError
        If it is not a gfx950 code object.
    """
    program = load(code) if isinstance(code, bytes) else code
    graph = graph_of(program)
    return [finding for rule in _CHECKS for finding in rule(program, graph)]

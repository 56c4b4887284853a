"""The wait states that follow from how long matrix instructions run.

They are those of LLVM's GCNHazardRecognizer.cpp (checkMAIHazards90A, checkMAIVALUHazards).
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke_cupy.emulator.hazards.operands import Access, Span
from rocke_cupy.emulator.timing.matrix import MatrixTiming


@dataclass(frozen=True)
class WaitsAfter:
    """Wait states after a matrix instruction, until another may touch its registers.

    Attributes
    ----------
    matrix_input : int
        Matrix instruction, as A or B.
    c_of_xdl, c_of_others : int
        Matrix instruction, as C, not with the same registers and the same instruction.
    same_c : int
        The same instruction with the same registers as C.
    vector, memory : int
        Vector or memory instruction that reads the result.
    write : int
        Vector or memory instruction that writes over the result.
    write_c : int
        Vector or memory instruction that writes over C.
    """

    matrix_input: int
    c_of_xdl: int
    c_of_others: int
    same_c: int
    vector: int
    memory: int
    write: int
    write_c: int


def waits_after(timing: MatrixTiming) -> WaitsAfter:
    """Return the wait states that a matrix instruction asks for."""
    n = timing.passes
    if timing.family == "dgemm":
        if n == 4:
            return WaitsAfter(6, 0, 4, 4, 6, 9, 6, 0)
        return WaitsAfter(19, 0, 17, 0, 19, 18, 11, 0)
    same = 2 if n == 2 else 0
    if timing.family == "sgemm":
        return WaitsAfter(n + 2, 0, n, same, n + 2, n + 2, n + 2, 0)
    most = 5 if n == 2 else n + 4
    overlap = 3 if n == 2 else n + 2
    return WaitsAfter(most, n + 2, overlap, same, most, most, most, n - 1)


@dataclass(frozen=True)
class MatrixOperands:
    """The registers of a matrix instruction by role; C is empty when it is a constant."""

    result: Span
    inputs: tuple[Span, ...]
    c: Span


def operands_of(access: Access) -> MatrixOperands:
    """Return the registers of a matrix instruction by role."""
    (result,) = access.writes
    if access.mnemonic.startswith("v_smfmac"):  # adds to its result; the indices count as input
        return MatrixOperands(result, access.sources, result)
    a, b, c, *scales = access.sources
    return MatrixOperands(result, tuple(span for span in (a, b, *scales) if span), c)

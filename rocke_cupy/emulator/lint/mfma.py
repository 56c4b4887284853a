"""Matrix instructions: how long they run, and which wait states follow from that.

Passes are those of LLVM's scheduling model of gfx950 (SISchedule.td, SIDPGFX950FullSpeedModel),
wait states those of its GCNHazardRecognizer.cpp (checkMAIHazards90A, checkMAIVALUHazards).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

from rocke_cupy.emulator.lint.operands import Access, Span

_SHAPE = re.compile(r"v_s?mfma\w*?_(f32|i32|f64)_(\d+)x(\d+)x(\d+)(?:_\d+b)?_(\w+)$")
_FP8_FORMATS = ("0", "1")  # of cbsz and blgp; what takes fewer bits runs in half the time


@dataclass(frozen=True)
class MatrixTiming:
    """What a matrix instruction is to the instructions behind it.

    Attributes
    ----------
    family : {"xdl", "sgemm", "dgemm"}
        The pipe: fp64 and fp32 inputs have their own.
    passes : int
    """

    family: Literal["xdl", "sgemm", "dgemm"]
    passes: int


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


@functools.lru_cache(256)
def timing_of(mnemonic: str, cbsz: str = "0", blgp: str = "0") -> MatrixTiming:
    """Return family and passes of a matrix instruction.

    Parameters
    ----------
    mnemonic : str
        Without suffix.
    cbsz, blgp : str
        Modifiers: with f8f6f4 inputs, the formats of A and B.
    """
    shape = _SHAPE.match(mnemonic)
    if shape is None:
        raise ValueError(f"{mnemonic} is no matrix instruction of gfx950")
    result, inputs = shape[1], shape[5]
    rows, depth = int(shape[2]), int(shape[4])
    if result == "f64":
        return MatrixTiming("dgemm", 4 if rows == 4 else 16)
    if mnemonic.startswith("v_smfmac"):
        return MatrixTiming("xdl", rows // 4)
    if inputs == "f8f6f4":
        fp8 = cbsz in _FP8_FORMATS or blgp in _FP8_FORMATS
        return MatrixTiming("xdl", rows // 4 * (2 if fp8 else 1))
    return MatrixTiming("sgemm" if inputs == "f32" else "xdl", _passes(rows, depth))


def _passes(rows: int, depth: int) -> int:
    if rows == 4:
        return 2
    return rows // 4 * (2 if depth <= 4 else 1)


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

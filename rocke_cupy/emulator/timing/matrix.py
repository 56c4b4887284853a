"""How long matrix instructions run.

Passes are those of LLVM's scheduling model of gfx950 (SISchedule.td, SIDPGFX950FullSpeedModel).
The cycles of the CDNA4 manual (tables 28 and 33) are four times as many, except for 4x4x4 fp64:
32 there, 4 passes here, as the manual's own table of wait states has it.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Literal

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

"""What each instruction costs on a compute unit."""

from __future__ import annotations

import re

import numpy as np

from rocke_cupy.emulator.core.gfx950 import LANES
from rocke_cupy.emulator.core.layouts import TIMED_INSTRUCTION
from rocke_cupy.emulator.core.numbers import TIMED_KINDS
from rocke_cupy.emulator.program import Program
from rocke_cupy.emulator.program.decoded import find_op
from rocke_cupy.emulator.program.text import named, split
from rocke_cupy.emulator.timing.constants import constants
from rocke_cupy.emulator.timing.matrix import timing_of

# Other units have a kind of their own name.
_KIND_OF_UNIT = {"none": "salu", "trans": "valu", "lds_dma": "dma"}
_KIND_OF_NAME = {"s_nop": "nop", "s_setprio": "priority", "s_endpgm": "end"}

_PACKED_FP32 = re.compile(r"v_pk_(add|mul|fma)_f32|v_pk_mov_b32")
_WIDE_MULTIPLY = re.compile(r"v_mul_(lo|hi)_[iu]32|v_mad_[iu]64_[iu]32")


def instruction_costs(program: Program) -> np.ndarray:
    """Return what each instruction costs; one more for running past the end."""
    costs = np.zeros(len(program.records), TIMED_INSTRUCTION)
    for index, instruction in enumerate(program.instructions):
        if not instruction.unknown:
            kind, *cycles = _cost(instruction.text, int(program.records[index]["imm"]))
            costs[index] = (TIMED_KINDS.index(kind), *cycles)
    return costs


def _cost(text: str, immediate: int) -> tuple[str, int, int, int]:
    """Return kind, cycles of issue, cycles of the matrix pipe, and cycles to the result."""
    c = constants()
    mnemonic = text.partition(" ")[0]
    kind = _kind_of(mnemonic, text)
    if kind == "nop":
        return kind, (immediate + 1) * c["issue_turn"], 0, 0
    if kind == "mfma":
        return kind, c["matrix_issue"], c["matrix_pass"] * _passes(text), 0
    if kind == "dma":
        size = {"x4": 16, "x3": 12}.get(mnemonic[-2:], 4)
        return kind, 0, LANES * size // c["dma_write_bytes"], 0
    if kind in ("valu", "packed"):
        issue = c[_vector_port(mnemonic, kind)]
        return kind, issue, 0, issue
    return kind, 0, 0, 0


def _kind_of(mnemonic: str, text: str) -> str:
    unit = find_op(mnemonic).unit
    if unit == "vmem" and " lds" in text:
        return "dma"
    if unit == "valu" and _PACKED_FP32.match(mnemonic):
        return "packed"
    return _KIND_OF_NAME.get(mnemonic) or _KIND_OF_UNIT.get(unit, unit)


def _passes(text: str) -> int:
    mnemonic, _, modifiers = split(text)
    values = dict(map(named, modifiers))
    formats = (values.get(name, "0") for name in ("cbsz", "blgp"))
    return timing_of(mnemonic, *formats).passes


def _vector_port(mnemonic: str, kind: str) -> str:
    """Name the constant that says how long an instruction holds its SIMD's vector port."""
    if find_op(mnemonic).unit == "trans":
        return "transcendental_issue"
    if kind == "packed":
        return "packed_issue"
    if mnemonic.startswith("v_permlane"):
        return "permlane_issue"
    return "wide_multiply_issue" if _WIDE_MULTIPLY.match(mnemonic) else "vector_issue"

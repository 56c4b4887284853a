"""The operands of an instruction: their types, and LLVM's text of each."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace

from rocke_cupy.emulator.core.gfx950 import EXEC, FLAT_SCRATCH, M0, PRIVATE_BASE, SHARED_BASE, VCC
from rocke_cupy.emulator.core.numbers import (
    ABS,
    AGPR,
    CONST,
    F16,
    F32,
    F64,
    INT,
    MASK,
    NEG,
    NONE,
    PAIR_16,
    PAIR_F32,
    SEXT,
    SGPR,
    VGPR,
)


class UnknownInstruction(ValueError):  # noqa: N818 (the name says what is wrong)
    """An instruction, operand form or modifier that the emulator does not model."""


@dataclass(frozen=True)
class Type:
    """An operand type of the semantics tables: registers, how signs apply, whether it is a part."""

    code: int
    width: int
    half: bool = False
    byte: bool = False


TYPES = {
    "u32": Type(INT, 1), "i32": Type(INT, 1), "b32": Type(INT, 1), "f32": Type(F32, 1),
    "u64": Type(INT, 2), "i64": Type(INT, 2), "b64": Type(INT, 2), "f64": Type(F64, 2),
    "b96": Type(INT, 3), "b128": Type(INT, 4), "b192": Type(INT, 6), "b256": Type(INT, 8),
    "b512": Type(INT, 16), "b1024": Type(INT, 32), "f64x4": Type(F64, 8),
    "f16": Type(F16, 1, True), "h16": Type(F16, 1, True), "u16": Type(INT, 1, True),
    "i16": Type(INT, 1, True), "d16": Type(INT, 1), "m64": Type(MASK, 2),
    "e16": Type(F16, 1, True), "he16": Type(F16, 1, True), "hu16": Type(INT, 1, True),
    "n32": Type(F32, 1), "mix": Type(F32, 1), "pe16": Type(PAIR_16, 1, True),
    "pf32": Type(PAIR_F32, 2), "pf16": Type(PAIR_16, 1, True), "pu16": Type(PAIR_16, 1, True),
    "pi16": Type(PAIR_16, 1, True), "u8": Type(INT, 1, byte=True), "hu8": Type(INT, 1, byte=True),
}  # fmt: skip


@dataclass(frozen=True)
class Operand:
    """An operand as the core takes it."""

    kind: int = NONE
    index: int = 0
    width: int = 0
    type: int = INT
    mods: int = 0
    sel: int = 0
    unused: int = 0
    value: int = 0


_REGISTER = re.compile(r"([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])$")


def _scalar_pair(name: str, first: int) -> dict[str, tuple[int, int]]:
    return {name: (first, 2), f"{name}_lo": (first, 1), f"{name}_hi": (first + 1, 1)}


NAMED_SCALARS = {
    **_scalar_pair("flat_scratch", FLAT_SCRATCH),
    **_scalar_pair("xnack_mask", FLAT_SCRATCH + 2),
    **_scalar_pair("vcc", VCC),
    **_scalar_pair("exec", EXEC),
    "m0": (M0, 1),
}
"""First register and number of registers of what has a name of its own."""

_APERTURES = {
    "src_shared_base": SHARED_BASE << 32,
    "src_shared_limit": SHARED_BASE << 32 | 0xFFFFFFFF,
    "src_private_base": PRIVATE_BASE << 32,
    "src_private_limit": PRIVATE_BASE << 32 | 0xFFFFFFFF,
}
_WRAPPED = {"abs": ABS, "neg": NEG, "sext": SEXT}


def parse_operand(text: str, kind: Type) -> Operand:
    """Parse a register, constant or named value with its sign modifiers.

    Parameters
    ----------
    text : str
        As LLVM prints it, for example ``-|v[2:3]|``.
    kind : Type
        What the instruction takes there.
    """
    mods = 0
    while True:
        if text.startswith("-") and not re.match(r"-(\d|0x|inf)", text):
            mods |= NEG
            text = text[1:]
        elif text.startswith("|") and text.endswith("|"):
            mods |= ABS
            text = text[1:-1]
        elif wrapped := re.match(r"(abs|neg|sext)\((.*)\)$", text):
            mods |= _WRAPPED[wrapped[1]]
            text = wrapped[2]
        else:
            break
    operand = _plain_operand(text, kind)
    if mods & (NEG | ABS) and kind.code not in (F32, F64, F16):
        raise UnknownInstruction(f"sign modifier on {text}")
    return replace(operand, mods=mods)


def _plain_operand(text: str, kind: Type) -> Operand:
    if found := _REGISTER.match(text):
        first = int(found[2] or found[3])
        width = int(found[4] or first) - first + 1
        _check_width(text, width, kind)
        file = {"v": VGPR, "s": SGPR, "a": AGPR}[found[1]]
        return Operand(file, first, kind.width, kind.code)
    if text in NAMED_SCALARS:
        index, width = NAMED_SCALARS[text]
        _check_width(text, width, kind)
        return Operand(SGPR, index, kind.width, kind.code)
    if text in _APERTURES:
        value = _APERTURES[text]
        return Operand(
            CONST, 0, kind.width, kind.code, value=value if kind.width > 1 else value >> 32
        )
    return Operand(CONST, 0, kind.width, kind.code, value=constant(text, kind))


def _check_width(text: str, width: int, kind: Type) -> None:
    if width != kind.width:
        raise UnknownInstruction(f"operand {text} where {kind.width} registers are expected")


def constant(text: str, kind: Type) -> int:
    """Return the bits of an inline constant or literal, as an operand of some type sees it."""
    if literal := re.match(r"lit(?:64)?\((.*)\)$", text):  # a literal where an inline one exists
        text = literal[1]
    try:
        number = int(text, 0)
    except ValueError:
        return _float_bits(text, kind)
    if kind.code == F64 and text.lstrip("-").startswith("0x") and abs(number) < 1 << 32:
        return (number & 0xFFFFFFFF) << 32  # a literal is the high half of an fp64 operand
    return number & (0xFFFFFFFF_FFFFFFFF if kind.width > 1 else 0xFFFFFFFF)


def _float_bits(text: str, kind: Type) -> int:
    try:
        number = float(text)
    except ValueError:
        raise UnknownInstruction(f"operand {text}") from None
    if kind.half:
        return int.from_bytes(struct.pack("<e", number), "little")
    if kind.code == F64 or (kind.width == 2 and kind.code == INT):
        return int.from_bytes(struct.pack("<d", number), "little")
    return int.from_bytes(struct.pack("<f", number), "little")

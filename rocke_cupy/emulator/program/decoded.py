"""A decoded instruction, and the operands that its table line asks for."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

from rocke_cupy.emulator.core.library import Op, ops
from rocke_cupy.emulator.program.operands import (
    TYPES,
    Operand,
    UnknownInstruction,
    parse_operand,
)
from rocke_cupy.emulator.program.text import without_suffix


@dataclass
class Decoded:
    """An instruction as the core takes it; `branch` counts words from the next one."""

    op: Op
    dst: list[Operand] = field(default_factory=list)
    src: list[Operand] = field(default_factory=list)
    flags: int = 0
    offset: int = 0
    offset1: int = 0
    imm: int = 0
    dpp: tuple[int, int, int] = (0, 0, 0)
    branch: int | None = None


@functools.cache
def parse_form(form: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the types of destinations and sources in a table's form."""
    results, sources = form.split(":")
    return tuple(filter(None, results.split(","))), tuple(filter(None, sources.split(",")))


def find_op(mnemonic: str) -> Op:
    """Return the table line of a mnemonic, encoding suffix or not."""
    table, name = ops(), without_suffix(mnemonic)
    if name not in table:
        raise UnknownInstruction(f"instruction {mnemonic}")
    return table[name]


def read_operands(decoded: Decoded, texts: list[str]) -> None:
    """Read the operands that the op's form names, in its order."""
    results, sources = parse_form(decoded.op.form)
    texts = list(texts)
    for name in results:
        decoded.dst.append(parse_operand(take(texts, decoded), TYPES[name]))
    for name in sources:
        if name == "vcc":
            decoded.src.append(parse_operand("vcc", TYPES["m64"]))
        elif name.startswith("="):
            decoded.src.append(replace(decoded.dst[0], type=TYPES[name[1:]].code))
        else:
            decoded.src.append(parse_operand(take(texts, decoded), TYPES[name]))
    if texts:
        raise UnknownInstruction(f"{decoded.op.name} with operand {texts[0]}")


def take(texts: list[str], decoded: Decoded) -> str:
    """Take the next operand off the list."""
    if not texts:
        raise UnknownInstruction(f"{decoded.op.name} with too few operands")
    return texts.pop(0)

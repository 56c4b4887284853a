"""LLVM assembly text to what the core executes, by the format of the instruction."""

from __future__ import annotations

from dataclasses import replace

from rocke_cupy.emulator.core.library import ops
from rocke_cupy.emulator.core.numbers import (
    BUFFER,
    CONST,
    DS,
    FLAT,
    GLOBAL,
    IDXEN,
    LDS,
    OFFEN,
    PLAIN,
    RETURN,
    SC0,
    SC1,
    SCRATCH,
    SMEM,
    SOPK,
    SOPP,
)
from rocke_cupy.emulator.program.decoded import (
    Decoded,
    find_op,
    parse_form,
    read_operands,
    take,
)
from rocke_cupy.emulator.program.disassemble import Line
from rocke_cupy.emulator.program.gpr_index import indexed, mode_of
from rocke_cupy.emulator.program.matrix import with_formats
from rocke_cupy.emulator.program.modifiers import apply_modifiers
from rocke_cupy.emulator.program.operands import (
    TYPES,
    Operand,
    UnknownInstruction,
    parse_operand,
)
from rocke_cupy.emulator.program.text import CACHE_POLICY, named, split


def decode(line: Line, index_mode: int = 0) -> Decoded:
    """Decode one line.

    Parameters
    ----------
    line : Line
    index_mode : int
        Which of its operands M0 moves.

    Raises
    ------
    UnknownInstruction
        If the instruction, an operand form or a modifier is not modelled.
    """
    mnemonic, operands, modifiers = split(line.text)
    op = find_op(mnemonic)
    decoded = _FORMATS[op.format](Decoded(op), line, operands, modifiers)
    if op.name == "s_getpc_b64" or op.name in ("s_swappc_b64", "s_call_b64"):
        decoded.offset = (line.offset + line.size) // 4
    return indexed(decoded, index_mode) if index_mode else decoded


def _plain(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    values = dict(named(modifier) for modifier in modifiers)
    saturating = ops().get(f"{decoded.op.name}_clamp")
    if "clamp" in values and saturating:
        del values["clamp"]
        decoded.op = saturating
    decoded.op = with_formats(decoded.op, values)
    if decoded.op.name == "s_set_gpr_idx_on":
        decoded.imm = mode_of(operands.pop())
    read_operands(decoded, operands)
    apply_modifiers(decoded, values)
    return decoded


def _sopp(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    decoded.imm = line.words[0] & 0xFFFF
    if "vcc" in decoded.op.name:
        decoded.src.append(parse_operand("vcc", TYPES["u64"]))
    if decoded.op.unit == "branch":
        decoded.branch = decoded.imm - (decoded.imm >> 15 << 16)
    return decoded


def _sopk(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    low = line.words[0] & 0xFFFF
    decoded.branch = low - (low >> 15 << 16)
    hardware = "reg" in decoded.op.name
    decoded.imm = low if hardware else decoded.branch & 0xFFFFFFFF
    results, sources = parse_form(decoded.op.form)
    texts = [text for text in operands if not text.startswith("hwreg(")]
    read_operands(decoded, texts[: len(results) + len(sources)])
    return decoded


_REACH = {"sc0": SC0, "sc1": SC1}
"""Flags of the cache bits that say how far an access reaches."""


def _memory_modifiers(decoded: Decoded, modifiers: list[str], allowed: dict[str, int]) -> None:
    for modifier in modifiers:
        name, value = named(modifier)
        if name == "offset":
            decoded.offset = int(value, 0)
        elif name in allowed:
            decoded.flags |= allowed[name]
        elif name in CACHE_POLICY:
            decoded.flags |= _REACH.get(name, 0)
        else:
            raise UnknownInstruction(f"{decoded.op.name} with modifier {modifier}")
    if parse_form(decoded.op.form)[0] and parse_form(decoded.op.form)[1]:  # an atomic
        decoded.flags |= RETURN if {"sc0", "glc"} & set(modifiers) else 0


def _smem(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {})
    texts = list(operands)
    (result,) = parse_form(decoded.op.form)[0]
    decoded.dst.append(parse_operand(take(texts, decoded), TYPES[result]))
    if not texts:  # a clock
        return decoded
    base = "b128" if decoded.op.name.startswith("s_buffer") else "u64"
    decoded.src.append(parse_operand(take(texts, decoded), TYPES[base]))
    place = take(texts, decoded)
    operand = parse_operand(place, TYPES["u32"])
    if operand.kind == CONST:
        decoded.offset += int(place, 0)
        operand = Operand()
    decoded.src.append(operand)
    return decoded


def _ds(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    for modifier in modifiers:
        if named(modifier)[0] not in ("offset", "offset0", "offset1"):
            raise UnknownInstruction(f"{decoded.op.name} with modifier {modifier}")
    read_operands(decoded, operands)
    low = line.words[0] & 0xFFFF
    two_offsets = any(name in decoded.op.name for name in ("read2", "write2", "xchg2"))
    decoded.offset, decoded.offset1 = (low & 255, low >> 8) if two_offsets else (low, 0)
    return decoded


def _address(text: str, kind: str) -> Operand:
    return Operand() if text == "off" else parse_operand(text, TYPES[kind])


def _data_and_result(decoded: Decoded, texts: list[str], position: int) -> None:
    """Read the result of a load, and the data of a store or atomic, which is at `position`."""
    results, sources = parse_form(decoded.op.form)
    returns = bool(results) and (not sources or decoded.flags & RETURN)
    if returns:
        decoded.dst.append(parse_operand(take(texts, decoded), TYPES[results[0]]))
    decoded.src.append(Operand())
    if sources:
        if position >= len(texts):
            raise UnknownInstruction(f"{decoded.op.name} with too few operands")
        decoded.src[0] = parse_operand(texts.pop(position), TYPES[sources[0]])


def _global(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {})
    texts = list(operands)
    _data_and_result(decoded, texts, 1)
    vector, scalar = take(texts, decoded), take(texts, decoded)
    decoded.src.append(_address(vector, "u64" if scalar == "off" else "u32"))
    decoded.src.append(_address(scalar, "u64"))
    return decoded


def _flat(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {})
    texts = list(operands)
    _data_and_result(decoded, texts, 1)
    decoded.src.append(_address(take(texts, decoded), "u64"))
    decoded.src.append(Operand())
    return decoded


def _scratch(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {})
    texts = list(operands)
    _data_and_result(decoded, texts, 1)
    decoded.src.append(_address(take(texts, decoded), "u32"))
    decoded.src.append(_address(take(texts, decoded), "u32"))
    return decoded


def _buffer(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {"offen": OFFEN, "idxen": IDXEN, "lds": LDS})
    results, sources = parse_form(decoded.op.form)
    texts = list(operands)
    decoded.src.append(Operand())
    if not decoded.flags & LDS:
        data = parse_operand(take(texts, decoded), TYPES[(sources or results)[0]])
        if sources:
            decoded.src[0] = data
        if results and (not sources or decoded.flags & RETURN):
            decoded.dst.append(replace(data, width=TYPES[results[0]].width))
    two = decoded.flags & OFFEN and decoded.flags & IDXEN
    decoded.src.append(_address(take(texts, decoded), "u64" if two else "u32"))
    decoded.src.append(parse_operand(take(texts, decoded), TYPES["b128"]))
    decoded.src.append(parse_operand(take(texts, decoded), TYPES["u32"]))
    return decoded


_FORMATS = {
    PLAIN: _plain, SOPP: _sopp, SOPK: _sopk, SMEM: _smem, DS: _ds, BUFFER: _buffer,
    GLOBAL: _global, FLAT: _flat, SCRATCH: _scratch,
}  # fmt: skip

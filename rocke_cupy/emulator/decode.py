"""LLVM assembly text to the binary records that the core executes."""

from __future__ import annotations

import functools
import re
import struct
from dataclasses import dataclass, field, replace

from rocke_cupy.emulator._core import Op, ops
from rocke_cupy.emulator.disassemble import Line

# The numbers of core/machine.h.
NONE, VGPR, SGPR, CONST, AGPR = range(5)
INT, F32, F64, F16, MASK, PAIR_F32, PAIR_16 = range(7)
NEG, ABS, SEXT, NEG_HI, SEL, SEL_HI = 1, 2, 4, 8, 16, 32
CLAMP, MUL2, MUL4, DIV2, DPP, BOUND_CTRL, OFFEN, IDXEN, LDS, RETURN = (1 << k for k in range(10))
PLAIN, SOPP, SOPK, SMEM, DS, BUFFER, GLOBAL, FLAT, SCRATCH = range(1, 10)
SELECTIONS = ("DWORD", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1")
UNUSED = ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE")
_WORD_1 = SELECTIONS.index("WORD_1")


class UnknownInstruction(ValueError):  # noqa: N818 (the name says what is wrong)
    """An instruction, operand form or modifier that the emulator does not model."""


@dataclass(frozen=True)
class Type:
    """An operand type of the semantics tables: registers, how signs apply, 16-bit or not."""

    code: int
    width: int
    half: bool = False


TYPES = {
    "u32": Type(INT, 1), "i32": Type(INT, 1), "b32": Type(INT, 1), "f32": Type(F32, 1),
    "u64": Type(INT, 2), "i64": Type(INT, 2), "b64": Type(INT, 2), "f64": Type(F64, 2),
    "b96": Type(INT, 3), "b128": Type(INT, 4), "b256": Type(INT, 8), "b512": Type(INT, 16),
    "f16": Type(F16, 1, True), "h16": Type(F16, 1, True), "u16": Type(INT, 1, True),
    "i16": Type(INT, 1, True), "d16": Type(INT, 1), "m64": Type(MASK, 2),
    "e16": Type(F16, 1, True), "he16": Type(F16, 1, True), "hu16": Type(INT, 1, True),
    "n32": Type(F32, 1), "mix": Type(F32, 1), "pe16": Type(PAIR_16, 1, True),
    "pf32": Type(PAIR_F32, 2), "pf16": Type(PAIR_16, 1, True), "pu16": Type(PAIR_16, 1, True),
    "pi16": Type(PAIR_16, 1, True),
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


@dataclass
class Decoded:
    """An instruction as the core takes it. `target` counts words from the next instruction."""

    op: Op
    dst: list[Operand] = field(default_factory=list)
    src: list[Operand] = field(default_factory=list)
    flags: int = 0
    offset: int = 0
    offset1: int = 0
    imm: int = 0
    dpp: tuple[int, int, int] = (0, 0, 0)
    branch: int | None = None


# ---- text ----


def split(text: str) -> tuple[str, list[str], list[str]]:
    """Cut a line into mnemonic, operands and modifiers."""
    mnemonic, _, rest = text.partition(" ")
    operands, modifiers = [], []
    for number, part in enumerate(_split_outside(rest, ",")):
        words = _split_outside(part, " ")
        if number == 0 and words and _is_modifier(words[0]):
            modifiers += words
            continue
        operands += words[:1]
        modifiers += words[1:]
    return mnemonic, operands, modifiers


def _is_modifier(word: str) -> bool:
    return ":" in word.partition("[")[0] or word in _CACHE_POLICY


def _split_outside(text: str, separator: str) -> list[str]:
    """Split at a separator that is not inside brackets."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == separator and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    parts.append(current.strip())
    return [part for part in parts if part]


_REGISTER = re.compile(r"([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])$")
NAMED_SCALARS = {
    "vcc": (106, 2), "vcc_lo": (106, 1), "vcc_hi": (107, 1), "m0": (124, 1), "exec": (126, 2),
    "exec_lo": (126, 1), "exec_hi": (127, 1), "flat_scratch": (102, 2),
    "flat_scratch_lo": (102, 1), "flat_scratch_hi": (103, 1), "xnack_mask": (104, 2),
    "xnack_mask_lo": (104, 1), "xnack_mask_hi": (105, 1),
}  # fmt: skip
# The apertures of core/global.h.
_APERTURES = {
    "src_shared_base": 0x10000 << 32,
    "src_shared_limit": 0x10000_FFFFFFFF,
    "src_private_base": 0x20000 << 32,
    "src_private_limit": 0x20000_FFFFFFFF,
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
    """Bits of an inline constant or literal as an operand of some type sees it."""
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


# ---- forms ----


@functools.cache
def parse_form(form: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Destinations and sources of a table's form."""
    results, sources = form.split(":")
    return tuple(filter(None, results.split(","))), tuple(filter(None, sources.split(",")))


_SUFFIXES = ("_e32", "_e64_dpp", "_e64", "_sdwa", "_dpp")


def without_suffix(mnemonic: str) -> str:
    """Return a mnemonic without its encoding suffix, if it has one."""
    for suffix in _SUFFIXES:
        if mnemonic.endswith(suffix):
            return mnemonic.removesuffix(suffix)
    return mnemonic


def find_op(mnemonic: str) -> Op:
    """Return the table line of a mnemonic, encoding suffix or not."""
    table, name = ops(), without_suffix(mnemonic)
    if name not in table:
        raise UnknownInstruction(f"instruction {mnemonic}")
    return table[name]


def decode(line: Line) -> Decoded:
    """Decode one line.

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
    return decoded


def _operands(decoded: Decoded, texts: list[str]) -> None:
    """Read the operands of the op's form in order."""
    results, sources = parse_form(decoded.op.form)
    texts = list(texts)
    for name in results:
        decoded.dst.append(parse_operand(_take(texts, decoded), TYPES[name]))
    for name in sources:
        if name == "vcc":
            decoded.src.append(parse_operand("vcc", TYPES["m64"]))
        elif name.startswith("="):
            decoded.src.append(replace(decoded.dst[0], type=TYPES[name[1:]].code))
        else:
            decoded.src.append(parse_operand(_take(texts, decoded), TYPES[name]))
    if texts:
        raise UnknownInstruction(f"{decoded.op.name} with operand {texts[0]}")


def _take(texts: list[str], decoded: Decoded) -> str:
    if not texts:
        raise UnknownInstruction(f"{decoded.op.name} with too few operands")
    return texts.pop(0)


def _plain(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    values = dict(_named(modifier) for modifier in modifiers)
    saturating = ops().get(f"{decoded.op.name}_clamp")
    if "clamp" in values and saturating:
        del values["clamp"]
        decoded.op = saturating
    _operands(decoded, operands)
    sources = parse_form(decoded.op.form)[1]
    if any(name.lstrip("=") in _PAIRS for name in sources):
        _packed_modifiers(decoded, values)
    elif "mix" in sources:
        _mixed_modifiers(decoded, values)
    elif "op_sel" in values:
        _halves(decoded, _bits(values.pop("op_sel")))
    if decoded.op.name.startswith("v_permlane"):
        values.pop("bound_ctrl", None)  # every lane has a partner: nothing is out of bounds
    _result_modifiers(decoded, values)
    _sdwa(decoded, values)
    _dpp(decoded, values)
    if "bitop3" in values:
        decoded.imm = int(values.pop("bitop3"), 0)
    _nothing_left(decoded, values)
    return decoded


_PAIRS = frozenset(name for name, kind in TYPES.items() if kind.code in (PAIR_F32, PAIR_16))


def _named(modifier: str) -> tuple[str, str]:
    name, _, value = modifier.partition(":")
    return name, value


def _bits(text: str) -> list[int]:
    return [int(bit) for bit in text.strip("[]").split(",")]


def _nothing_left(decoded: Decoded, values: dict[str, str]) -> None:
    for name, value in values.items():
        raise UnknownInstruction(
            f"{decoded.op.name} with modifier {name}{':' if value else ''}{value}"
        )


def _packed_modifiers(decoded: Decoded, values: dict[str, str]) -> None:
    count = len(decoded.src)
    low = _bits(values.pop("op_sel", "")) if "op_sel" in values else [0] * count
    high = _bits(values.pop("op_sel_hi")) if "op_sel_hi" in values else [1] * count
    negative = _bits(values.pop("neg_lo")) if "neg_lo" in values else [0] * count
    negative_high = _bits(values.pop("neg_hi")) if "neg_hi" in values else [0] * count
    exchange = decoded.op.name == "v_pk_mov_b32"  # op_sel alone says which half goes where
    for k in range(count):
        operand = decoded.src[k]
        reads_high = low[k] or (high[k] and not exchange)
        if operand.kind == CONST and operand.type == PAIR_F32 and reads_high and operand.value:
            raise UnknownInstruction(f"{decoded.op.name} with the high half of a constant")
        mods = low[k] * SEL | high[k] * SEL_HI | negative[k] * NEG | negative_high[k] * NEG_HI
        decoded.src[k] = replace(operand, mods=mods)


def _mixed_modifiers(decoded: Decoded, values: dict[str, str]) -> None:
    """op_sel_hi marks fp16 sources, op_sel their half; the core takes abs as NEG_HI."""
    half = _bits(values.pop("op_sel", "[0,0,0]"))
    is_fp16 = _bits(values.pop("op_sel_hi", "[0,0,0]"))
    for k, operand in enumerate(decoded.src):
        if operand.kind == CONST and is_fp16[k]:
            raise UnknownInstruction(f"{decoded.op.name} with a constant as fp16")
        signs = operand.mods & NEG | (NEG_HI if operand.mods & ABS else 0)
        mods = signs | half[k] * SEL | is_fp16[k] * SEL_HI
        decoded.src[k] = replace(operand, mods=mods, type=PAIR_16)


def _halves(decoded: Decoded, bits: list[int]) -> None:
    """op_sel of an unpacked 16-bit instruction: the high half of a source, or of the result."""
    results, sources = parse_form(decoded.op.form)
    for k, bit in enumerate(bits[: len(sources)]):
        if bit and not TYPES[sources[k].lstrip("=")].half:
            raise UnknownInstruction(f"{decoded.op.name} with op_sel on source {k}")
        if bit:
            decoded.src[k] = replace(decoded.src[k], sel=_WORD_1)
    if len(bits) > len(sources) and bits[len(sources)]:
        if not TYPES[results[0]].half:
            raise UnknownInstruction(f"{decoded.op.name} with op_sel on its result")
        preserve = UNUSED.index("UNUSED_PRESERVE")
        decoded.dst[0] = replace(decoded.dst[0], sel=_WORD_1, unused=preserve)


def _result_modifiers(decoded: Decoded, values: dict[str, str]) -> None:
    scale = {("mul", "2"): MUL2, ("mul", "4"): MUL4, ("div", "2"): DIV2}
    for (name, value), flag in scale.items():
        if values.get(name) == value:
            del values[name]
            decoded.flags |= flag
    if "clamp" in values:
        del values["clamp"]
        decoded.flags |= CLAMP
    rescaled = decoded.flags & (CLAMP | MUL2 | MUL4 | DIV2)
    if rescaled and parse_form(decoded.op.form)[0][:1] not in (("f32",), ("pf32",)):
        raise UnknownInstruction(
            f"{decoded.op.name} with an output modifier on a result that is not fp32"
        )


def _sdwa(decoded: Decoded, values: dict[str, str]) -> None:
    for k, name in enumerate(("src0_sel", "src1_sel")):
        if name in values:
            sel = SELECTIONS.index(values.pop(name))
            decoded.src[k] = replace(decoded.src[k], sel=sel)
    unused = UNUSED.index(values.pop("dst_unused", "UNUSED_PAD"))
    if "dst_sel" in values:
        sel = SELECTIONS.index(values.pop("dst_sel"))
        decoded.dst[0] = replace(decoded.dst[0], sel=sel, unused=unused)


_DPP_CODES = {
    "row_shl": 0x100, "row_shr": 0x110, "row_ror": 0x120, "wave_shl": 0x12F, "wave_rol": 0x133,
    "wave_shr": 0x137, "wave_ror": 0x13B, "row_newbcast": 0x150,
}  # fmt: skip
_DPP_FIXED = {
    "row_mirror": 0x140,
    "row_half_mirror": 0x141,
    "row_bcast:15": 0x142,
    "row_bcast:31": 0x143,
}


def _dpp(decoded: Decoded, values: dict[str, str]) -> None:
    control = None
    if "quad_perm" in values:
        control = sum(lane << 2 * k for k, lane in enumerate(_bits(values.pop("quad_perm"))))
    for name, code in _DPP_CODES.items():
        if name in values:
            control = code + int(values.pop(name))
    for text, code in _DPP_FIXED.items():
        name, value = _named(text)
        if values.get(name) == value:
            del values[name]
            control = code
    if control is None:
        return
    decoded.flags |= DPP
    if "bound_ctrl" in values:  # printed as :0 or :1, both mean that the bit is set
        del values["bound_ctrl"]
        decoded.flags |= BOUND_CTRL
    rows, banks = (int(values.pop(name, "0xf"), 0) for name in ("row_mask", "bank_mask"))
    decoded.dpp = (control, rows, banks)


# ---- the other formats ----


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
    _operands(decoded, texts[: len(results) + len(sources)])
    return decoded


_CACHE_POLICY = frozenset({"sc0", "sc1", "nt", "glc", "slc", "dlc"})


def _memory_modifiers(decoded: Decoded, modifiers: list[str], allowed: dict[str, int]) -> None:
    for modifier in modifiers:
        name, value = _named(modifier)
        if name == "offset":
            decoded.offset = int(value, 0)
        elif name in allowed:
            decoded.flags |= allowed[name]
        elif name not in _CACHE_POLICY:
            raise UnknownInstruction(f"{decoded.op.name} with modifier {modifier}")
    if parse_form(decoded.op.form)[0] and parse_form(decoded.op.form)[1]:  # an atomic
        decoded.flags |= RETURN if {"sc0", "glc"} & set(modifiers) else 0


def _smem(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {})
    texts = list(operands)
    (result,) = parse_form(decoded.op.form)[0]
    decoded.dst.append(parse_operand(_take(texts, decoded), TYPES[result]))
    decoded.src.append(parse_operand(_take(texts, decoded), TYPES["u64"]))
    place = _take(texts, decoded)
    operand = parse_operand(place, TYPES["u32"])
    if operand.kind == CONST:
        decoded.offset += int(place, 0)
        operand = Operand()
    decoded.src.append(operand)
    return decoded


def _ds(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    for modifier in modifiers:
        if _named(modifier)[0] not in ("offset", "offset0", "offset1"):
            raise UnknownInstruction(f"{decoded.op.name} with modifier {modifier}")
    _operands(decoded, operands)
    low = line.words[0] & 0xFFFF
    two_offsets = any(name in decoded.op.name for name in ("read2", "write2"))
    decoded.offset, decoded.offset1 = (low & 255, low >> 8) if two_offsets else (low, 0)
    return decoded


def _address(text: str, kind: str) -> Operand:
    return Operand() if text == "off" else parse_operand(text, TYPES[kind])


def _data_and_result(decoded: Decoded, texts: list[str], position: int) -> None:
    """The result of a load, or the data of a store or atomic, which stands at `position`."""
    results, sources = parse_form(decoded.op.form)
    returns = bool(results) and (not sources or decoded.flags & RETURN)
    if returns:
        decoded.dst.append(parse_operand(_take(texts, decoded), TYPES[results[0]]))
    decoded.src.append(Operand())
    if sources:
        if position >= len(texts):
            raise UnknownInstruction(f"{decoded.op.name} with too few operands")
        decoded.src[0] = parse_operand(texts.pop(position), TYPES[sources[0]])


def _global(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {})
    texts = list(operands)
    _data_and_result(decoded, texts, 1)
    vector, scalar = _take(texts, decoded), _take(texts, decoded)
    decoded.src.append(_address(vector, "u64" if scalar == "off" else "u32"))
    decoded.src.append(_address(scalar, "u64"))
    return decoded


def _flat(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {})
    texts = list(operands)
    _data_and_result(decoded, texts, 1)
    decoded.src.append(_address(_take(texts, decoded), "u64"))
    decoded.src.append(Operand())
    return decoded


def _scratch(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {})
    texts = list(operands)
    _data_and_result(decoded, texts, 1)
    decoded.src.append(_address(_take(texts, decoded), "u32"))
    decoded.src.append(_address(_take(texts, decoded), "u32"))
    return decoded


def _buffer(decoded: Decoded, line: Line, operands: list[str], modifiers: list[str]) -> Decoded:
    _memory_modifiers(decoded, modifiers, {"offen": OFFEN, "idxen": IDXEN, "lds": LDS})
    results, sources = parse_form(decoded.op.form)
    texts = list(operands)
    decoded.src.append(Operand())
    if not decoded.flags & LDS:
        data = parse_operand(_take(texts, decoded), TYPES[(sources or results)[0]])
        if sources:
            decoded.src[0] = data
        if results and (not sources or decoded.flags & RETURN):
            decoded.dst.append(replace(data, width=TYPES[results[0]].width))
    decoded.src.append(_address(_take(texts, decoded), "u32"))
    decoded.src.append(parse_operand(_take(texts, decoded), TYPES["b128"]))
    decoded.src.append(parse_operand(_take(texts, decoded), TYPES["u32"]))
    return decoded


_FORMATS = {
    PLAIN: _plain, SOPP: _sopp, SOPK: _sopk, SMEM: _smem, DS: _ds, BUFFER: _buffer,
    GLOBAL: _global, FLAT: _flat, SCRATCH: _scratch,
}  # fmt: skip

"""The modifiers of ALU instructions: signs, halves, selections, lane moves, output scaling."""

from __future__ import annotations

from dataclasses import replace

from rocke_cupy.emulator.core.numbers import (
    ABS,
    BOUND_CTRL,
    CLAMP,
    CONST,
    DIV2,
    DPP,
    MUL2,
    MUL4,
    NEG,
    NEG_HI,
    PAIR_16,
    PAIR_F32,
    SEL,
    SEL_HI,
    SELECTIONS,
    UNUSED,
)
from rocke_cupy.emulator.program.decoded import Decoded, parse_form
from rocke_cupy.emulator.program.matrix import matrix_modifiers
from rocke_cupy.emulator.program.operands import TYPES, UnknownInstruction
from rocke_cupy.emulator.program.text import bits, named

_BYTE_0, _WORD_1 = SELECTIONS.index("BYTE_0"), SELECTIONS.index("WORD_1")
_PAIRS = frozenset(name for name, kind in TYPES.items() if kind.code in (PAIR_F32, PAIR_16))


def apply_modifiers(decoded: Decoded, values: dict[str, str]) -> None:
    """Apply all modifiers of an instruction whose operands have been read.

    Parameters
    ----------
    decoded : Decoded
        It is changed.
    values : dict
        The modifiers by name; none is left.

    Raises
    ------
    UnknownInstruction
        If one is not modelled on this instruction.
    """
    sources = parse_form(decoded.op.form)[1]
    if decoded.op.unit == "mfma":
        matrix_modifiers(decoded, values)
    elif any(name.lstrip("=") in _PAIRS for name in sources):
        _packed_modifiers(decoded, values)
    elif "mix" in sources:
        _mixed_modifiers(decoded, values)
    elif "op_sel" in values:
        _parts(decoded, bits(values.pop("op_sel")))
    if decoded.op.name.startswith("v_permlane"):
        values.pop("bound_ctrl", None)  # every lane has a partner: nothing is out of bounds
    _result_modifiers(decoded, values)
    _sdwa(decoded, values)
    _dpp(decoded, values)
    if "bitop3" in values:
        decoded.imm = int(values.pop("bitop3"), 0)
    _nothing_left(decoded, values)


def _nothing_left(decoded: Decoded, values: dict[str, str]) -> None:
    for name, value in values.items():
        raise UnknownInstruction(
            f"{decoded.op.name} with modifier {name}{':' if value else ''}{value}"
        )


def _packed_modifiers(decoded: Decoded, values: dict[str, str]) -> None:
    count = len(decoded.src)
    low = bits(values.pop("op_sel", "")) if "op_sel" in values else [0] * count
    high = bits(values.pop("op_sel_hi")) if "op_sel_hi" in values else [1] * count
    negative = bits(values.pop("neg_lo")) if "neg_lo" in values else [0] * count
    negative_high = bits(values.pop("neg_hi")) if "neg_hi" in values else [0] * count
    exchange = decoded.op.name == "v_pk_mov_b32"  # op_sel alone says which half goes where
    for k in range(count):
        operand = decoded.src[k]
        reads_high = low[k] or (high[k] and not exchange)
        if operand.kind == CONST and operand.type == PAIR_F32 and reads_high and operand.value:
            raise UnknownInstruction(f"{decoded.op.name} with the high half of a constant")
        mods = low[k] * SEL | high[k] * SEL_HI | negative[k] * NEG | negative_high[k] * NEG_HI
        decoded.src[k] = replace(operand, mods=mods)


def _mixed_modifiers(decoded: Decoded, values: dict[str, str]) -> None:
    """Read op_sel_hi, which marks fp16 sources, and op_sel, their half.

    The core takes abs as NEG_HI.
    """
    half = bits(values.pop("op_sel", "[0,0,0]"))
    is_fp16 = bits(values.pop("op_sel_hi", "[0,0,0]"))
    for k, operand in enumerate(decoded.src):
        if operand.kind == CONST and is_fp16[k]:
            raise UnknownInstruction(f"{decoded.op.name} with a constant as fp16")
        signs = operand.mods & NEG | (NEG_HI if operand.mods & ABS else 0)
        mods = signs | half[k] * SEL | is_fp16[k] * SEL_HI
        decoded.src[k] = replace(operand, mods=mods, type=PAIR_16)


def _parts(decoded: Decoded, chosen: list[int]) -> None:
    """Read op_sel of an unpacked instruction: the half or byte of a source or the result.

    A half takes the bit of its operand. A byte takes two: those of the first two sources, and the
    two behind them for the result (CDNA4 manual 7.3).
    """
    results, sources = parse_form(decoded.op.form)
    preserve = UNUSED.index("UNUSED_PRESERVE")
    if TYPES[sources[0].lstrip("=")].byte:
        sel = _BYTE_0 + chosen[0] + 2 * chosen[1]
        decoded.src[0] = replace(decoded.src[0], sel=sel)
        chosen = [0, 0, *chosen[2:]]
    if TYPES[results[0]].byte:
        sel = _BYTE_0 + chosen[2] + 2 * chosen[3]
        decoded.dst[0] = replace(decoded.dst[0], sel=sel, unused=preserve)
        chosen = chosen[:2]
    for k, bit in enumerate(chosen[: len(sources)]):
        if bit and not TYPES[sources[k].lstrip("=")].half:
            raise UnknownInstruction(f"{decoded.op.name} with op_sel on source {k}")
        if bit:
            decoded.src[k] = replace(decoded.src[k], sel=_WORD_1)
    if len(chosen) > len(sources) and chosen[len(sources)]:
        if not TYPES[results[0]].half:
            raise UnknownInstruction(f"{decoded.op.name} with op_sel on its result")
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
        control = sum(lane << 2 * k for k, lane in enumerate(bits(values.pop("quad_perm"))))
    for name, code in _DPP_CODES.items():
        if name in values:
            control = code + int(values.pop(name))
    for text, code in _DPP_FIXED.items():
        name, value = named(text)
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

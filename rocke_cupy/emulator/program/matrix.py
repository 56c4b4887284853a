"""The modifiers of matrix instructions: formats, broadcasts, signs and the bytes of scales."""

from __future__ import annotations

import re
from dataclasses import replace

from rocke_cupy.emulator.core.library import Op
from rocke_cupy.emulator.core.numbers import SEL, SEL_HI, SGPR
from rocke_cupy.emulator.program.decoded import Decoded
from rocke_cupy.emulator.program.operands import UnknownInstruction
from rocke_cupy.emulator.program.text import bits

_SOURCE_OF_FORMAT = {"0": "b256", "1": "b256", "2": "b192", "3": "b192", "4": "b128"}
"""Registers of 32 elements of fp8, bf8, fp6, bf6 and fp4, by the number that cbsz or blgp gives."""

_SHIFTS = {"cbsz": 0, "abid": 3, "blgp": 7}
"""Where the core finds a modifier in the immediate."""

_BLOCKS = re.compile(r"v_mfma_\w+_(\d+)b_")


def with_formats(op: Op, values: dict[str, str]) -> Op:
    """Return an op whose form has the registers of the formats that its modifiers name."""
    if "cbsz" not in op.form:
        return op
    form = op.form
    for name in ("cbsz", "blgp"):
        number = values.get(name, "0")
        if number not in _SOURCE_OF_FORMAT:
            raise UnknownInstruction(f"{op.name} with modifier {name}:{number}")
        form = form.replace(name, _SOURCE_OF_FORMAT[number])
    return op._replace(form=form)


def matrix_modifiers(decoded: Decoded, values: dict[str, str]) -> None:
    """Apply the modifiers of a matrix instruction whose operands have been read.

    Parameters
    ----------
    decoded : Decoded
        It is changed.
    values : dict
        The modifiers by name; those that the instruction does not have are left.
    """
    name = decoded.op.name
    for modifier in _modifiers_of(name, values):
        decoded.imm |= int(values.pop(modifier, "0")) << _SHIFTS[modifier]
    if name.endswith("_f64"):  # blgp by another name
        signs = bits(values.pop("neg", "[0,0,0]"))
        decoded.imm |= sum(bit << k for k, bit in enumerate(signs)) << _SHIFTS["blgp"]
    if name.startswith("v_mfma_scale_"):
        _scales(decoded, values)


def _modifiers_of(name: str, values: dict[str, str]) -> tuple[str, ...]:
    if name.endswith("f8f6f4"):
        return ("cbsz", "blgp")
    if name.startswith("v_smfmac"):
        return ("cbsz", "abid")
    # The calculator has broadcasts for instructions of several matrices only. Beyond their number
    # of blocks they are undefined (CDNA4 manual 7.1.6.1).
    if blocks := _BLOCKS.match(name):
        parts = 1 << int(values.get("cbsz", "0"))
        if parts <= int(blocks[1]) and int(values.get("abid", "0")) < parts:
            return ("cbsz", "abid", "blgp")
    return ()


def _scales(decoded: Decoded, values: dict[str, str]) -> None:
    low = bits(values.pop("op_sel", "[0,0,0]"))
    high = bits(values.pop("op_sel_hi", "[1,1,1]"))
    for k in range(2):
        scale = decoded.src[3 + k]
        if scale.kind == SGPR:  # the manual has vector registers and constants
            raise UnknownInstruction(f"{decoded.op.name} with a scale in a scalar register")
        decoded.src[3 + k] = replace(scale, mods=low[k] * SEL | high[k] * SEL_HI)

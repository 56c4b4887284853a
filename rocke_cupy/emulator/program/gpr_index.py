"""Registers chosen at run time: between s_set_gpr_idx_on and _off, M0 moves vector registers.

Both compilers index vectors so (LLVM's SI_INDIRECT_SRC and _DST), with one v_mov_b32 between the
two and no branch: the mode of each instruction can be read off the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rocke_cupy.emulator.program.decoded import Decoded, find_op
from rocke_cupy.emulator.program.disassemble import Line
from rocke_cupy.emulator.program.operands import UnknownInstruction

_MODE = re.compile(r"gpr_idx\(([\w,]*)\)")
_BITS = {"SRC0": 1, "SRC1": 2, "SRC2": 4, "DST": 8}
_SCALAR_UNITS = ("none", "salu", "smem", "wait")


def mode_of(text: str) -> int:
    """Return the mode in a text, a bit for each operand that moves; 0 without one."""
    found = _MODE.search(text)
    return sum(_BITS[name] for name in found[1].split(",") if name) if found else 0


def modes_of(lines: list[Line]) -> Iterator[int]:
    """Yield the mode in which each line executes."""
    mode = 0
    for line in lines:
        yield mode
        if line.text.startswith("s_set_gpr_idx") and not line.text.startswith("s_set_gpr_idx_idx"):
            mode = mode_of(line.text)


def indexed(decoded: Decoded, mode: int) -> Decoded:
    """Return what an instruction is when M0 moves its registers.

    Raises
    ------
    UnknownInstruction
        If it is neither a v_mov_b32 nor scalar and in line.
    """
    op = decoded.op
    if op.unit in _SCALAR_UNITS:
        return decoded
    if op.name != "v_mov_b32" or decoded.flags or mode & ~(_BITS["SRC0"] | _BITS["DST"]):
        raise UnknownInstruction(f"{op.name} after s_set_gpr_idx_on")
    decoded.op = find_op("v_mov_b32_indexed")
    decoded.imm = mode
    return decoded

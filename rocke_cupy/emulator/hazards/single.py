"""What holds for an instruction by itself: a form that must not be, and a need for all lanes."""

from __future__ import annotations

import re

from rocke_cupy.emulator.hazards.operands import Access, bits, is_vector

_PACKED_FP32 = ("v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32")
_TRANSPOSED = re.compile(r"ds_read_b\d+_tr_b\d+$")


def may_take_zero(access: Access) -> bool:
    """Whether the low half may be computed with 0 in place of the second source (R27)."""
    if access.mnemonic not in _PACKED_FP32 or not access.sources[1]:
        return False
    low_halves = bits(access.modifiers.get("op_sel", "[0,0]"))[:2]
    return low_halves == [0, 1] and is_vector(access.sources[1][0])


def needs_all_lanes(mnemonic: str) -> bool:
    """Whether EXEC must have all lanes, since data move between them (R30)."""
    return bool(_TRANSPOSED.match(mnemonic))

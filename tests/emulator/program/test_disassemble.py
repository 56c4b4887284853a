"""Disassembling: instructions of every length, remembered by all of their words."""

import pytest

from rocke_cupy.emulator.assemble import assemble
from rocke_cupy.emulator.program.disassemble import disassemble

SCALED = [
    "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[20:23], v24, v25 ",
    "v_mfma_scale_f32_32x32x64_f8f6f4 v[32:47], v[4:11], v[12:19], v[48:63], v24, v25 ",
    "v_mfma_scale_f32_32x32x64_f8f6f4 v[32:47], v[4:9], v[12:15], v[48:63], v24, v25 ",
]
MODIFIERS = ("op_sel_hi:[0,0,0]", "op_sel_hi:[0,0,0]", "op_sel_hi:[0,0,0] cbsz:2 blgp:4")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_instructions_of_16_bytes_with_equal_first_halves(order):
    texts = [SCALED[k] + MODIFIERS[k] for k in order]
    code = [assemble(text) for text in texts]
    assert len({part[:8] for part in code}) == 1
    assert [len(part) for part in code] == [16, 16, 16]
    for _ in range(2):  # the second time from memory
        lines = disassemble(b"".join(code))
        assert [line.offset for line in lines] == [0, 16, 32]
        assert [line.text for line in lines] == texts


def test_lengths_mix():
    texts = ["s_nop 0", "v_add_u32_e32 v1, 0x12345, v2", SCALED[0] + MODIFIERS[0], "s_endpgm"]
    lines = disassemble(b"".join(map(assemble, texts)))
    assert [(line.size, line.text) for line in lines] == list(
        zip((4, 8, 16, 4), texts, strict=True)
    )

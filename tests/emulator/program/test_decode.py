"""Decoding LLVM's text: what is understood, and that everything else stops with a reason."""

from pathlib import Path

import pytest

from rocke_cupy.emulator.assemble import AssemblyError, assemble
from rocke_cupy.emulator.core import numbers
from rocke_cupy.emulator.core.library import ops
from rocke_cupy.emulator.program.decode import decode
from rocke_cupy.emulator.program.decoded import Decoded, find_op, parse_form
from rocke_cupy.emulator.program.disassemble import disassemble
from rocke_cupy.emulator.program.operands import (
    TYPES,
    UnknownInstruction,
    constant,
    parse_operand,
)
from rocke_cupy.emulator.program.text import split

# Instructions of four public families of attention kernels (hand-written assembly, HipKittens,
# Triton, FlyDSL), counted from their gfx950 code objects.
KNOWN = Path(__file__).parents[1] / "data" / "attention_mnemonics.txt"

# Their operands other than plain registers, and their modifiers.
FORMS = """\
s_mul_i32 s0, s1, 0x12345
s_movk_i32 s0, 0x1234
s_cmpk_lt_i32 s0, 0x123
s_load_dwordx4 s[0:3], s[4:5], 0x123
s_load_dwordx4 s[0:3], s[4:5], s6
s_load_dwordx4 s[0:3], s[4:5], s6 offset:0x10
v_mul_u32_u24_e32 v0, 0x1234, v1
v_fmac_f32_e32 v0, 0x3fb8aa3b, v1
v_cvt_f32_f16_sdwa v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1
v_fma_f32 v1, -v2, v3, v4
v_add_f32_e64 v1, v2, -v3
v_permlane32_swap_b32_e64 v1, v2 bound_ctrl:1
v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel_hi:[0,1]
v_pk_mul_f32 v[0:1], v[2:3], s[4:5] op_sel_hi:[1,0]
v_pk_add_f32 v[0:1], v[2:3], v[4:5] op_sel_hi:[1,0] neg_lo:[0,1] neg_hi:[0,1]
v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1,1] neg_lo:[0,0,1] neg_hi:[0,0,1]
v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[1,0]
v_accvgpr_mov_b32 a1, a2
v_accvgpr_read_b32 v1, a2
v_accvgpr_write_b32 a1, v2
v_mfma_f32_32x32x16_bf16 a[0:15], v[0:3], v[4:7], a[0:15]
v_mfma_f32_32x32x16_bf16 v[0:15], a[0:3], v[4:7], v[16:31]
v_mfma_f32_32x32x16_f16 a[0:15], a[0:3], a[4:7], a[0:15]
ds_read_b64_tr_b16 a[0:1], v0 offset:8
ds_read_b128 a[0:3], v0 offset:16
ds_write_b128 v0, a[0:3] offset:16
ds_read_b64 a[0:1], v1 offset:8
buffer_load_dwordx4 v0, s[0:3], s4 offen offset:16 lds
buffer_load_dwordx4 a[0:3], v0, s[0:3], s4 offen offset:16
buffer_store_dwordx4 v[0:3], v4, s[0:3], 0 offen offset:16
buffer_store_dwordx2 a[0:1], v4, s[0:3], 0 offen offset:16
buffer_store_dword v0, v4, s[0:3], 0 offen
global_load_dwordx4 a[0:3], v0, s[0:1] offset:16
global_store_dwordx4 v0, a[0:3], s[0:1] offset:16
scratch_store_dwordx2 off, v[0:1], s32 offset:8
scratch_load_dwordx2 v[0:1], off, s32 offset:8
scratch_store_dword v1, v0, off offset:2
scratch_load_dword a0, off, s32 offset:8
"""


def decoded(text: str) -> Decoded:
    (line,) = disassemble(assemble(text))
    return decode(line)


class TestSplit:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("s_endpgm", ("s_endpgm", [], [])),
            ("v_add_f32_e32 v0, s1, v2", ("v_add_f32_e32", ["v0", "s1", "v2"], [])),
            (
                "ds_read_b128 v[4:7], v1 offset:64",
                ("ds_read_b128", ["v[4:7]", "v1"], ["offset:64"]),
            ),
            (
                "v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1,0] neg_lo:[0,0,1]",
                (
                    "v_pk_fma_f32",
                    ["v[0:1]", "v[2:3]", "v[4:5]", "v[6:7]"],
                    ["op_sel_hi:[0,1,0]", "neg_lo:[0,0,1]"],
                ),
            ),
            (
                "buffer_load_dwordx4 v1, s[0:3], s4 offen lds",
                ("buffer_load_dwordx4", ["v1", "s[0:3]", "s4"], ["offen", "lds"]),
            ),
            ("buffer_wbl2 sc1", ("buffer_wbl2", [], ["sc1"])),
            (
                "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3",
                ("s_setreg_imm32_b32", ["hwreg(HW_REG_MODE, 4, 2)", "3"], []),
            ),
        ],
    )
    def test_lines(self, text, expected):
        assert split(text) == expected


class TestOperands:
    @pytest.mark.parametrize(
        ("text", "kind", "expected"),
        [
            ("v7", "u32", (numbers.VGPR, 7, 1, 0)),
            ("v[8:11]", "b128", (numbers.VGPR, 8, 4, 0)),
            ("a[16:31]", "b512", (numbers.AGPR, 16, 16, 0)),
            ("s5", "f32", (numbers.SGPR, 5, 1, 0)),
            ("vcc", "m64", (numbers.SGPR, 106, 2, 0)),
            ("exec_hi", "u32", (numbers.SGPR, 127, 1, 0)),
            ("m0", "u32", (numbers.SGPR, 124, 1, 0)),
            ("-v1", "f32", (numbers.VGPR, 1, 1, numbers.NEG)),
            ("-|v[2:3]|", "f64", (numbers.VGPR, 2, 2, numbers.NEG | numbers.ABS)),
            ("abs(v1)", "f16", (numbers.VGPR, 1, 1, numbers.ABS)),
            ("sext(v1)", "u32", (numbers.VGPR, 1, 1, numbers.SEXT)),
        ],
    )
    def test_registers(self, text, kind, expected):
        operand = parse_operand(text, TYPES[kind])
        assert (operand.kind, operand.index, operand.width, operand.mods) == expected

    @pytest.mark.parametrize(
        ("text", "kind"),
        [("v[0:2]", "b128"), ("v1", "u64"), ("-v1", "u32"), ("ttmp4", "u32"), ("src_scc", "u32")],
    )
    def test_what_does_not_fit_is_refused(self, text, kind):
        with pytest.raises(UnknownInstruction):
            parse_operand(text, TYPES[kind])

    @pytest.mark.parametrize(
        ("text", "kind", "bits"),
        [
            ("-1", "u32", 0xFFFFFFFF),
            ("-1", "u64", 0xFFFFFFFF_FFFFFFFF),
            ("64", "f32", 64),
            ("0x3f800000", "f32", 0x3F800000),
            ("1.0", "f32", 0x3F800000),
            ("-4.0", "u32", 0xC0800000),
            ("0.5", "f16", 0x3800),
            ("2.0", "pf16", 0x4000),
            ("1.0", "f64", 0x3FF0000000000000),
            ("0x40080000", "f64", 0x4008000000000000),
            ("0x12345678", "u64", 0x12345678),
            ("0.15915494", "f32", 0x3E22F983),
            ("0.15915494309189532", "f64", 0x3FC45F306DC9C882),
            ("lit(0xffffffff)", "u32", 0xFFFFFFFF),
        ],
    )
    def test_constants(self, text, kind, bits):
        assert hex(constant(text, TYPES[kind])) == hex(bits)


class TestUnknown:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("s_rfe_b64 s[0:1]", "instruction s_rfe_b64"),
            ("s_cbranch_g_fork s[2:3], s[4:5]", "instruction s_cbranch_g_fork"),
            ("v_add_f16_e64 v0, v1, v2 clamp", "output modifier"),
            ("v_pk_add_f16 v0, v1, v2 clamp", "output modifier"),
            ("v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7] clamp", "output modifier"),
            ("v_mov_b32_e32 v0, src_scc", "operand src_scc"),
            ("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], 0 blgp:1", "blgp"),
        ],
    )
    def test_it_says_what(self, text, reason):
        with pytest.raises(UnknownInstruction, match=reason):
            decoded(text)

    def test_words_that_are_no_instruction(self):
        (line,) = disassemble(b"\xff\xff\xff\xff")
        assert line.text == ".long 0xffffffff"
        with pytest.raises(UnknownInstruction, match=r"\.long"):
            decode(line)


class TestBranches:
    @pytest.mark.parametrize(("text", "words"), [("s_branch 5", 5), ("s_cbranch_scc1 65533", -3)])
    def test_distances_are_signed_words(self, text, words):
        assert decoded(text).branch == words


class TestTables:
    def test_every_form_is_made_of_known_types(self):
        for op in ops().values():
            for name in (*parse_form(op.form)[0], *parse_form(op.form)[1]):
                assert name.lstrip("=") in TYPES or name in ("vcc", "cbsz", "blgp"), op

    def test_every_instruction_of_four_kernel_families_is_modelled(self):
        names = KNOWN.read_text().split()
        assert len(names) == 188
        for name in names:
            find_op(name)

    def test_their_operand_forms_and_modifiers_are_understood(self):
        code = assemble(FORMS)
        lines = disassemble(code)
        assert len(lines) == len(FORMS.split("\n")) - 1
        for line in lines:
            decode(line)

    def test_the_assembler_knows_our_names(self):
        """A misspelt name in a table would never be reached."""
        lines = [
            f"{name} " + ", ".join(operands)
            for name, operands in (example(op) for op in ops().values())
            if not name.endswith(("_clamp", "_indexed"))  # names of ours for modifiers and modes
        ]
        try:
            code = assemble("\n".join(lines))
        except AssemblyError as error:
            wrong = [line for line in str(error).splitlines() if "invalid instruction" in line]
            unknown = {lines[int(text.split(":")[1]) - 1] for text in wrong}
            assert not unknown
        else:
            assert code


_EXAMPLES = {
    "m64": "vcc", "u64": "v[2:3]", "i64": "v[2:3]", "f64": "v[2:3]", "pf32": "v[2:3]",
    "b64": "v[2:3]", "b96": "v[2:4]", "b128": "v[4:7]", "b256": "v[8:15]", "b512": "v[16:31]",
}  # fmt: skip


def example(op) -> tuple[str, list[str]]:
    """A line that uses an op, without operands where that takes more than its form."""
    results, sources = parse_form(op.form)
    if op.format != numbers.PLAIN or not op.name.startswith("v_"):
        return op.name, []
    names = [name for name in (*results, *sources) if name != "vcc" and name[0] != "="]
    return op.name, [_EXAMPLES.get(name, "v1") for name in names]

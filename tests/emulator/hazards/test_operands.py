"""Which registers an instruction uses: against recorded executions, and by hand what they lack."""

import gzip
import json
from pathlib import Path

import pytest

from rocke_cupy.emulator.assemble import assemble
from rocke_cupy.emulator.core import numbers
from rocke_cupy.emulator.hazards.operands import EXEC, VCC, access_of, name_of
from rocke_cupy.emulator.program.decode import decode
from rocke_cupy.emulator.program.disassemble import disassemble

_FILES = {numbers.VGPR: 0, numbers.AGPR: 256, numbers.SGPR: 512}


def recorded():
    file = Path(__file__).parents[1] / "data/gfx950_instructions.jsonl.gz"
    return [json.loads(line) for line in gzip.open(file, "rt")]


def lines():
    words = (entry["encoding"].split() for entry in recorded())
    return [disassemble(b"".join(int(w, 16).to_bytes(4, "little") for w in ws))[0] for ws in words]


def names(spans):
    return {name_of((register,)) for span in spans for register in span}


def test_a_register_that_changes_is_among_the_results():
    wrong = []
    for entry, line in zip(recorded(), lines(), strict=True):
        changed = {
            *entry["scalars_changed"],
            *(r for r, (a, b) in entry["vgprs"].items() if a != b),
        }
        if not changed - {"scc"} <= names(access_of(line.text).writes):
            wrong.append(line.text)
    assert wrong == []


def test_the_decoder_says_the_same():
    wrong = []
    for line in lines():
        if line.text.startswith("s_cmpk"):  # its source stands where results do in the tables
            continue
        decoded, access = decode(line), access_of(line.text)
        results, sources = registers(decoded.dst), registers(decoded.src)
        if not results <= names(access.writes) or not sources <= names(access.reads):
            wrong.append((line.text, results, sources))
    assert wrong == []


def registers(operands):
    return {
        name_of((_FILES[o.kind] + o.index + k,))
        for o in operands
        if o.kind in _FILES
        for k in range(o.width)
    }


@pytest.mark.parametrize(
    ("text", "kind", "writes", "reads"),
    [
        ("v_exp_f32_e64 v1, -v2", "trans", "v1", "v2"),
        ("v_dot2c_f32_bf16_e32 v0, v1, v2", "dot", "v0", "v1 v2 v0"),
        ("v_swap_b32 v0, v1", "valu", "v0 v1", "v1 v0"),
        ("v_permlane32_swap_b32_e32 v0, v1", "valu", "v0 v1", "v1 v0"),
        ("v_cmpx_lt_f32_e64 s[2:3], |v0|, v1", "valu", "s[2:3] exec", "v0 v1"),
        ("v_div_scale_f32 v0, vcc, v1, v2, v3", "valu", "v0 vcc", "v1 v2 v3"),
        ("v_div_fmas_f32 v0, v1, v2, v3", "valu", "v0", "v1 v2 v3 vcc"),
        ("v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf", "valu", "v1", "v2 v1"),
        ("v_mov_b32_e32 v1, src_vccz", "valu", "v1", "vccz"),
        ("v_readlane_b32 s0, v1, m0", "valu", "s0", "v1 m0"),
        ("v_accvgpr_write_b32 a3, v1", "valu", "a3", "v1"),
        ("v_smfmac_f32_16x16x32_f16 v[8:11], v[2:3], v[4:7], v1", "mfma", "v[8:11]",
         "v[2:3] v[4:7] v1 v[8:11]"),
        ("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[20:23], v24, v25 "
         "op_sel_hi:[0,0,0]", "mfma", "v[0:3]", "v[4:11] v[12:19] v[20:23] v24 v25"),
        ("s_and_saveexec_b64 s[4:5], vcc", "salu", "s[4:5] exec", "vcc exec"),
        ("s_setreg_b32 hwreg(HW_REG_MODE, 4, 2), s0", "salu", "", "HW_REG_MODE s0"),
        ("s_getreg_b32 s0, hwreg(HW_REG_MODE)", "salu", "s0", "HW_REG_MODE vskip"),
        ("s_cmp_eq_u32 s0, s1", "salu", "", "s0 s1"),
        ("s_set_gpr_idx_on s2, gpr_idx(SRC0)", "salu", "m0", "s2"),
        ("s_set_gpr_idx_off", "salu", "", ""),
        ("s_buffer_load_dwordx2 s[0:1], s[4:7], s8", "smem", "s[0:1]", "s[4:7] s8"),
        ("buffer_load_dword v1, v[2:3], s[4:7], 0 idxen offen", "vmem", "v1", "v[2:3] s[4:7]"),
        ("s_load_dwordx2 vcc, s[0:1], 0x0", "smem", "vcc", "s[0:1]"),
        ("buffer_load_dwordx4 v1, s[4:7], s8 offen lds", "vmem", "", "v1 s[4:7] s8"),
        ("global_load_lds_dwordx4 v[2:3], off", "vmem", "", "v[2:3]"),
        ("buffer_atomic_add v1, v2, s[4:7], 0 offen", "vmem", "", "v1 v2 s[4:7]"),
        ("buffer_atomic_add v1, v2, s[4:7], 0 offen sc0", "vmem", "v1", "v2 s[4:7] v1"),
        ("global_atomic_cmpswap_x2 v[6:7], v[4:5], v[0:3], off sc0", "vmem", "v[6:7]",
         "v[4:5] v[0:3]"),
        ("global_load_short_d16_hi v1, v2, s[2:3]", "vmem", "v1", "v2 s[2:3] v1"),
        ("ds_add_rtn_u32 v0, v1, v2", "lds", "v0", "v1 v2"),
        ("ds_write_b64 v0, a[2:3]", "lds", "", "v0 a[2:3]"),
        ("ds_read_b64_tr_b16 v[2:3], v0 offset:8", "lds", "v[2:3]", "v0"),
    ],
)  # fmt: skip
def test_instructions(text, kind, writes, reads):
    (line,) = disassemble(assemble(text))
    access = access_of(line.text)
    assert access.kind == kind
    assert " ".join(map(_name, access.writes)) == writes
    assert " ".join(map(_name, access.reads)) == reads


def _name(span):
    return " ".join(map(str, span)) if isinstance(span[0], str) else name_of(span)


def test_what_is_no_instruction_uses_nothing():
    access = access_of(".long 0xfffffff0")
    assert (access.kind, access.writes, access.reads) == ("salu", (), ())


def test_names():
    assert name_of(VCC) == "vcc"
    assert name_of(EXEC) == "exec"
    assert name_of(VCC[:1]) == "vcc_lo"
    assert name_of((259, 260)) == "a[3:4]"

"""The errata mode: what gfx950 may compute wrongly is wrong, and nothing else."""

import numpy as np
import pytest

from rocke_cupy.emulator import run
from rocke_cupy.emulator.assemble import assemble_kernel

MULTIPLY = "v_mfma_f32_16x16x32_f16 v[12:15], v[16:19], v[20:23], v[12:15]\n"
# The two sums of a row, added as the softmax of this project once did.
SUMS = "v_pk_add_f32 v[4:5], v[2:3], v[2:3] op_sel:[0,1] op_sel_hi:[1,0]\n"
START = (
    "s_load_dwordx2 s[4:5], s[0:1], 0x0\n"
    + "".join(f"v_mov_b32_e32 v{k}, 0\n" for k in range(12, 24))
    + "v_mov_b32_e32 v2, 1.0\nv_mov_b32_e32 v3, 2.0\nv_mov_b32_e32 v6, 4.0\nv_mov_b32_e32 v7, 8.0\n"
    "v_lshrrev_b32_e32 v1, 6, v0\ns_nop 4\nv_readfirstlane_b32 s8, v1\ns_nop 4\n"
    "s_waitcnt lgkmcnt(0)\n"
)
END = "s_nop 15\nv_lshlrev_b32_e32 v0, 3, v0\nglobal_store_dwordx2 v0, v[4:5], s[4:5]\ns_endpgm"


def sums(body, waves=1, **options):
    """Return v4 and v5 of all threads."""
    code = assemble_kernel("k", START + body + END)
    out = np.zeros((64 * waves, 2), np.float32)
    run(code, "k", (1,), (64 * waves,), [out], **options)
    return out


def test_only_the_mode_makes_it_wrong():
    assert (sums(MULTIPLY + SUMS) == (3, 3)).all()
    assert (sums(MULTIPLY + SUMS, errata=True) == (1, 3)).all()
    assert (sums(MULTIPLY + SUMS, errata=True, hazards=False) == (1, 3)).all()


def test_only_while_matrices_are_multiplied():
    assert (sums(SUMS, errata=True) == (3, 3)).all()
    assert (sums(f"{MULTIPLY}s_nop 15\ns_nop 2\n{SUMS}", errata=True) == (1, 3)).all()
    assert (sums(f"{MULTIPLY}s_nop 15\ns_nop 3\n{SUMS}", errata=True) == (3, 3)).all()


@pytest.mark.parametrize(
    ("instruction", "right", "wrong"),
    [
        ("v_pk_mul_f32 v[4:5], v[2:3], v[6:7] op_sel:[0,1] op_sel_hi:[1,0]", (8, 8), (0, 8)),
        ("v_pk_add_f32 v[4:5], v[2:3], v[6:7] op_sel:[0,1]", (9, 10), (1, 10)),
        ("v_pk_fma_f32 v[4:5], v[2:3], v[6:7], v[2:3] op_sel:[0,1,0]", (9, 18), (1, 18)),
    ],
)
def test_each_instruction(instruction, right, wrong):
    assert (sums(f"{MULTIPLY}{instruction}\n") == right).all()
    assert (sums(f"{MULTIPLY}{instruction}\n", errata=True) == wrong).all()


@pytest.mark.parametrize(
    "instruction",
    [
        "v_pk_add_f32 v[4:5], v[2:3], v[6:7]",
        "v_pk_add_f32 v[4:5], v[6:7], v[2:3] op_sel:[1,0]",
        "v_pk_mul_f32 v[4:5], v[2:3], v[6:7] op_sel:[1,1]",
        "v_pk_mul_f32 v[4:5], v[2:3], s[0:1] op_sel:[0,1]",
    ],
)
def test_other_forms_are_right(instruction):
    body = f"s_mov_b64 s[0:1], 0x40000000\n{MULTIPLY}{instruction}\n"
    assert np.array_equal(sums(body), sums(body, errata=True))


def test_lanes_that_are_off_and_a_result_over_a_source():
    body = (
        "v_mov_b32_e32 v4, v2\nv_mov_b32_e32 v5, v3\ns_mov_b64 exec, 1\n"
        f"{MULTIPLY}v_pk_add_f32 v[4:5], v[4:5], v[4:5] op_sel:[0,1] op_sel_hi:[1,0]\n"
        "s_mov_b64 exec, -1\n"
    )
    out = sums(body, errata=True)
    assert (out[0] == (1, 3)).all()
    assert (out[1:] == (1, 2)).all()


def test_another_wave_of_the_workgroup_multiplies():
    body = (
        f"s_cmp_eq_u32 s8, 0\ns_cbranch_scc1 .Lsums\n{MULTIPLY}s_barrier\ns_branch .Lend\n"
        f".Lsums:\ns_barrier\n{SUMS}.Lend:\n"
    )
    assert (sums(body, waves=2)[:64] == (3, 3)).all()
    assert (sums(body, waves=2, errata=True, quantum=1)[:64] == (1, 3)).all()

"""Scalar instructions: results and SCC, written out."""

import pytest

from rocke_cupy.emulator.step import SCC, State, step

ONES = 0xFFFFFFFF
ONES64 = 0xFFFFFFFF_FFFFFFFF

# text with s2 as result and s4, s6 as sources; their values; result; SCC after (before it is 0)
RESULTS_32 = [
    ("s_mov_b32 s2, s4", 7, 0, 7, 0),
    ("s_mov_b32 s2, 0x12345678", 0, 0, 0x12345678, 0),
    ("s_mov_b32 s2, -2.0", 0, 0, 0xC0000000, 0),
    ("s_not_b32 s2, s4", 0xF, 0, 0xFFFFFFF0, 1),
    ("s_not_b32 s2, s4", ONES, 0, 0, 0),
    ("s_abs_i32 s2, s4", 0xFFFFFFFD, 0, 3, 1),
    ("s_abs_i32 s2, s4", 0x80000000, 0, 0x80000000, 1),
    ("s_bcnt1_i32_b32 s2, s4", 0xF0F0, 0, 8, 1),
    ("s_bcnt0_i32_b32 s2, s4", ONES, 0, 0, 0),
    ("s_brev_b32 s2, s4", 1, 0, 0x80000000, 0),
    ("s_ff1_i32_b32 s2, s4", 0x8, 0, 3, 0),
    ("s_ff1_i32_b32 s2, s4", 0, 0, ONES, 0),
    ("s_ff0_i32_b32 s2, s4", 0x7, 0, 3, 0),
    ("s_flbit_i32_b32 s2, s4", 0x00800000, 0, 8, 0),
    ("s_flbit_i32 s2, s4", 0xFF800000, 0, 9, 0),
    ("s_sext_i32_i8 s2, s4", 0x180, 0, 0xFFFFFF80, 0),
    ("s_sext_i32_i16 s2, s4", 0x8000, 0, 0xFFFF8000, 0),
    ("s_bitset1_b32 s2, s4", 4, 0, 0x10, 0),
    ("s_add_u32 s2, s4, s6", ONES, 1, 0, 1),
    ("s_add_u32 s2, s4, s6", ONES, 0, ONES, 0),
    ("s_sub_u32 s2, s4, s6", 1, 2, ONES, 1),
    ("s_sub_u32 s2, s4, s6", 2, 2, 0, 0),
    ("s_add_i32 s2, s4, s6", 0x7FFFFFFF, 1, 0x80000000, 1),
    ("s_add_i32 s2, s4, s6", ONES, 1, 0, 0),
    ("s_sub_i32 s2, s4, s6", 0x80000000, 1, 0x7FFFFFFF, 1),
    ("s_sub_i32 s2, s4, s6", 3, 5, 0xFFFFFFFE, 0),
    ("s_min_i32 s2, s4, s6", ONES, 1, ONES, 1),
    ("s_min_u32 s2, s4, s6", ONES, 1, 1, 0),
    ("s_max_i32 s2, s4, s6", ONES, 1, 1, 0),
    ("s_max_u32 s2, s4, s6", ONES, 1, ONES, 1),
    ("s_mul_i32 s2, s4, s6", 0x10001, 0x10001, 0x20001, 0),
    ("s_mul_hi_u32 s2, s4, s6", ONES, ONES, 0xFFFFFFFE, 0),
    ("s_mul_hi_i32 s2, s4, s6", ONES, ONES, 0, 0),
    ("s_and_b32 s2, s4, s6", 12, 10, 8, 1),
    ("s_and_b32 s2, s4, s6", 12, 3, 0, 0),
    ("s_or_b32 s2, s4, s6", 12, 10, 14, 1),
    ("s_xor_b32 s2, s4, s6", 12, 10, 6, 1),
    ("s_andn2_b32 s2, s4, s6", 12, 10, 4, 1),
    ("s_orn2_b32 s2, s4, s6", 0, ONES, 0, 0),
    ("s_nand_b32 s2, s4, s6", 3, 1, 0xFFFFFFFE, 1),
    ("s_nor_b32 s2, s4, s6", 3, 1, 0xFFFFFFFC, 1),
    ("s_xnor_b32 s2, s4, s6", 3, 3, ONES, 1),
    ("s_lshl_b32 s2, s4, s6", 1, 33, 2, 1),
    ("s_lshr_b32 s2, s4, s6", 0x80000000, 31, 1, 1),
    ("s_ashr_i32 s2, s4, s6", 0x80000000, 31, ONES, 1),
    ("s_bfm_b32 s2, s4, s6", 4, 8, 0xF00, 0),
    ("s_bfe_u32 s2, s4, 0x80004", 0xABCD, 0, 0xBC, 1),
    ("s_bfe_i32 s2, s4, 0x80004", 0xABCD, 0, 0xFFFFFFBC, 1),
    ("s_bfe_u32 s2, s4, 0x4", 0xABCD, 0, 0, 0),
    ("s_absdiff_i32 s2, s4, s6", 3, 5, 2, 1),
    ("s_lshl2_add_u32 s2, s4, s6", 0x40000000, 1, 1, 1),
    ("s_pack_ll_b32_b16 s2, s4, s6", 0x11112222, 0x33334444, 0x44442222, 0),
    ("s_pack_lh_b32_b16 s2, s4, s6", 0x11112222, 0x33334444, 0x33332222, 0),
    ("s_pack_hh_b32_b16 s2, s4, s6", 0x11112222, 0x33334444, 0x33331111, 0),
    ("s_movk_i32 s2, 0xff00", 0, 0, 0xFFFFFF00, 0),
    ("s_bcnt1_i32_b64 s2, s[4:5]", ONES64, 0, 64, 1),
    ("s_ff1_i32_b64 s2, s[4:5]", 1 << 40, 0, 40, 0),
    ("s_flbit_i32_b64 s2, s[4:5]", 1 << 40, 0, 23, 0),
    ("s_quadmask_b32 s2, s4", 0x01000010, 0, 0x42, 1),
    ("s_wqm_b32 s2, s4", 0x01000010, 0, 0x0F0000F0, 1),
]

RESULTS_64 = [
    ("s_mov_b64 s[2:3], -1", 0, 0, ONES64, 0),
    ("s_mov_b64 s[2:3], 1.0", 0, 0, 0x3FF00000_00000000, 0),
    ("s_not_b64 s[2:3], s[4:5]", ONES64, 0, 0, 0),
    ("s_and_b64 s[2:3], s[4:5], s[6:7]", ONES64, 1 << 40, 1 << 40, 1),
    ("s_or_b64 s[2:3], s[4:5], s[6:7]", 0, 0, 0, 0),
    ("s_xor_b64 s[2:3], s[4:5], s[6:7]", ONES64, 1, ONES64 - 1, 1),
    ("s_andn2_b64 s[2:3], s[4:5], s[6:7]", ONES64, 1, ONES64 - 1, 1),
    ("s_orn2_b64 s[2:3], s[4:5], s[6:7]", 0, ONES64, 0, 0),
    ("s_lshl_b64 s[2:3], s[4:5], s6", 1, 63, 1 << 63, 1),
    ("s_lshr_b64 s[2:3], s[4:5], s6", 1 << 63, 62, 2, 1),
    ("s_ashr_i64 s[2:3], s[4:5], s6", 1 << 63, 62, ONES64 - 1, 1),
    ("s_bfe_u64 s[2:3], s[4:5], 0x80004", 0xABCD, 0, 0xBC, 1),
    ("s_bfe_i64 s[2:3], s[4:5], 0x80004", 0xABCD, 0, ONES64 - 0x43, 1),
    ("s_bfm_b64 s[2:3], s4, s6", 4, 40, 0xF << 40, 0),
    ("s_brev_b64 s[2:3], s[4:5]", 1, 0, 1 << 63, 0),
    ("s_bitreplicate_b64_b32 s[2:3], s4", 5, 0, 0x33, 0),
]

CONDITIONS = [
    ("s_cmp_eq_i32 s4, s6", 3, 3, 1),
    ("s_cmp_lg_u32 s4, s6", 3, 3, 0),
    ("s_cmp_gt_i32 s4, s6", ONES, 0, 0),
    ("s_cmp_gt_u32 s4, s6", ONES, 0, 1),
    ("s_cmp_ge_i32 s4, s6", 0, 0, 1),
    ("s_cmp_ge_u32 s4, s6", 0, 1, 0),
    ("s_cmp_lt_i32 s4, s6", ONES, 0, 1),
    ("s_cmp_lt_u32 s4, s6", ONES, 0, 0),
    ("s_cmp_le_i32 s4, s6", ONES, 0, 1),
    ("s_cmp_le_u32 s4, s6", 1, 0, 0),
    ("s_cmp_eq_u64 s[4:5], s[6:7]", 1 << 40, 1 << 40, 1),
    ("s_cmp_eq_u64 s[4:5], s[6:7]", 1 << 40, 0, 0),
    ("s_cmp_lg_u64 s[4:5], s[6:7]", 1 << 40, 0, 1),
    ("s_bitcmp1_b32 s4, s6", 4, 2, 1),
    ("s_bitcmp0_b32 s4, s6", 4, 2, 0),
    ("s_bitcmp1_b64 s[4:5], s6", 1 << 40, 40, 1),
    ("s_cmpk_lt_i32 s4, 0xffff", 0xFFFFFFFE, 0, 1),
    ("s_cmpk_lt_u32 s4, 0xffff", 0xFFFFFFFE, 0, 0),
    ("s_cmpk_gt_u32 s4, 0x10", 0x11, 0, 1),
    ("s_cmpk_eq_i32 s4, 0xffff", ONES, 0, 1),
]


def given(first: int, second: int, scc: int = 0) -> State:
    state = State()
    state.set64(4, first)
    state.set64(6, second)
    state.s[SCC] = scc
    return state


@pytest.mark.parametrize(("text", "first", "second", "result", "scc"), RESULTS_32)
def test_32_bits(text, first, second, result, scc):
    state = given(first, second)
    step(text, state)
    assert (int(state.s[2]), int(state.s[SCC])) == (result, scc)
    assert state.s[3] == 0


@pytest.mark.parametrize(("text", "first", "second", "result", "scc"), RESULTS_64)
def test_64_bits(text, first, second, result, scc):
    state = given(first, second)
    step(text, state)
    assert (state.get64(2), int(state.s[SCC])) == (result, scc)


@pytest.mark.parametrize(("text", "first", "second", "scc"), CONDITIONS)
@pytest.mark.parametrize("before", [0, 1])
def test_conditions(text, first, second, scc, before):
    state = given(first, second, before)
    step(text, state)
    assert state.s[SCC] == scc


@pytest.mark.parametrize(
    ("text", "first", "second", "scc", "result", "after"),
    [
        ("s_addc_u32 s2, s4, s6", 9, 3, 1, 13, 0),
        ("s_addc_u32 s2, s4, s6", 9, 3, 0, 12, 0),
        ("s_addc_u32 s2, s4, s6", ONES, 0, 1, 0, 1),
        ("s_subb_u32 s2, s4, s6", 9, 2, 1, 6, 0),
        ("s_subb_u32 s2, s4, s6", 2, 9, 0, 0xFFFFFFF9, 1),
        ("s_subb_u32 s2, s4, s6", 2, 2, 1, ONES, 1),
        ("s_cselect_b32 s2, s4, s6", 9, 3, 1, 9, 1),
        ("s_cselect_b32 s2, s4, s6", 9, 3, 0, 3, 0),
        ("s_cmov_b32 s2, s4", 9, 0, 1, 9, 1),
        ("s_cmov_b32 s2, s4", 9, 0, 0, 77, 0),
        ("s_cmovk_i32 s2, 0x5", 0, 0, 1, 5, 1),
        ("s_cmovk_i32 s2, 0x5", 0, 0, 0, 77, 0),
    ],
)
def test_scc_as_a_source(text, first, second, scc, result, after):
    state = given(first, second, scc)
    state.s[2] = 77
    step(text, state)
    assert (int(state.s[2]), int(state.s[SCC])) == (result, after)


@pytest.mark.parametrize(
    ("text", "before", "result", "scc"),
    [
        ("s_addk_i32 s2, 0xffff", 5, 4, 0),
        ("s_addk_i32 s2, 0x7fff", 0x7FFFFFFF, 0x80007FFE, 1),
        ("s_mulk_i32 s2, 0xfffe", 5, 0xFFFFFFF6, 0),
    ],
)
def test_constants_of_16_bits_change_the_register(text, before, result, scc):
    state = State()
    state.s[2] = before
    step(text, state)
    assert (int(state.s[2]), int(state.s[SCC])) == (result, scc)


@pytest.mark.parametrize(
    ("text", "exec_after", "scc"),
    [
        ("s_and_saveexec_b64 s[2:3], s[4:5]", 0b1000, 1),
        ("s_or_saveexec_b64 s[2:3], s[4:5]", 0b1110, 1),
        ("s_xor_saveexec_b64 s[2:3], s[4:5]", 0b0110, 1),
        ("s_andn2_saveexec_b64 s[2:3], s[4:5]", 0b0100, 1),
        ("s_andn1_saveexec_b64 s[2:3], s[4:5]", 0b0010, 1),
        ("s_nor_saveexec_b64 s[2:3], s[4:5]", ONES64 - 0b1110, 1),
    ],
)
def test_saveexec_keeps_the_old_mask(text, exec_after, scc):
    state = given(0b1100, 0)
    state.set64("exec", 0b1010)
    step(text, state)
    assert state.get64(2) == 0b1010
    assert state.get64("exec") == exec_after
    assert state.s[SCC] == scc


def test_saveexec_onto_its_own_source():
    state = given(0b1100, 0)
    state.set64("exec", 0b0011)
    step("s_and_saveexec_b64 s[4:5], s[4:5]", state)
    assert (state.get64(4), state.get64("exec"), int(state.s[SCC])) == (0b0011, 0, 0)

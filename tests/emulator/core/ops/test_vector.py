"""Vector arithmetic and logic: results written out as bits, then modifiers, SDWA, DPP and EXEC."""

import struct

import numpy as np
import pytest

from rocke_cupy.emulator.program.operands import UnknownInstruction
from rocke_cupy.emulator.step import KEEP_DENORMALS, State, step

ONES = 0xFFFFFFFF
LANES = np.arange(64, dtype=np.uint32)


def f(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def h(value: float) -> int:
    return struct.unpack("<H", struct.pack("<e", value))[0]


INF, NAN = f(float("inf")), 0x7FC00000

# text with v1 as result and v2, v4, v6 as sources; their bits; the result's bits
INTEGERS = [
    ("v_mov_b32_e32 v1, v2", 7, 0, 0, 7),
    ("v_not_b32_e32 v1, v2", 0xF, 0, 0, 0xFFFFFFF0),
    ("v_bfrev_b32_e32 v1, v2", 1, 0, 0, 0x80000000),
    ("v_ffbh_u32_e32 v1, v2", 0x00800000, 0, 0, 8),
    ("v_ffbh_u32_e32 v1, v2", 0, 0, 0, ONES),
    ("v_ffbl_b32_e32 v1, v2", 8, 0, 0, 3),
    ("v_ffbh_i32_e32 v1, v2", 0xFF800000, 0, 0, 9),
    ("v_add_u32_e32 v1, v2, v4", ONES, 2, 0, 1),
    ("v_sub_u32_e32 v1, v2, v4", 1, 2, 0, ONES),
    ("v_subrev_u32_e32 v1, v2, v4", 1, 2, 0, 1),
    ("v_add_u32_e64 v1, v2, v4 clamp", ONES, 2, 0, ONES),
    ("v_sub_u32_e64 v1, v2, v4 clamp", 1, 2, 0, 0),
    ("v_add_i32 v1, v2, v4", 3, 4, 0, 7),
    ("v_add_i32 v1, v2, v4 clamp", 0x7FFFFFFF, 4, 0, 0x7FFFFFFF),
    ("v_sub_i32 v1, v2, v4", 3, 4, 0, ONES),
    ("v_mul_lo_u32 v1, v2, v4", 0x10001, 0x10001, 0, 0x20001),
    ("v_mul_hi_u32 v1, v2, v4", ONES, ONES, 0, 0xFFFFFFFE),
    ("v_mul_hi_i32 v1, v2, v4", ONES, 5, 0, ONES),
    ("v_mul_u32_u24_e32 v1, v2, v4", 0xFF000003, 5, 0, 15),
    ("v_mul_i32_i24_e32 v1, v2, v4", 0x00FFFFFF, 5, 0, 0xFFFFFFFB),
    ("v_mul_hi_u32_u24_e32 v1, v2, v4", 0xFFFFFF, 0xFFFFFF, 0, 0xFFFF),
    ("v_and_b32_e32 v1, v2, v4", 12, 10, 0, 8),
    ("v_or_b32_e32 v1, v2, v4", 12, 10, 0, 14),
    ("v_xor_b32_e32 v1, v2, v4", 12, 10, 0, 6),
    ("v_xnor_b32_e32 v1, v2, v4", 12, 10, 0, 0xFFFFFFF9),
    ("v_min_i32_e32 v1, v2, v4", ONES, 1, 0, ONES),
    ("v_min_u32_e32 v1, v2, v4", ONES, 1, 0, 1),
    ("v_max_i32_e32 v1, v2, v4", ONES, 1, 0, 1),
    ("v_max_u32_e32 v1, v2, v4", ONES, 1, 0, ONES),
    ("v_lshlrev_b32_e32 v1, v2, v4", 33, 1, 0, 2),
    ("v_lshrrev_b32_e32 v1, v2, v4", 31, 0x80000000, 0, 1),
    ("v_ashrrev_i32_e32 v1, v2, v4", 31, 0x80000000, 0, ONES),
    ("v_bfm_b32 v1, v2, v4", 4, 8, 0, 0xF00),
    ("v_bcnt_u32_b32 v1, v2, v4", 0xFF, 3, 0, 11),
    ("v_add3_u32 v1, v2, v4, v6", ONES, 2, 3, 4),
    ("v_lshl_add_u32 v1, v2, v4, v6", 3, 2, 5, 17),
    ("v_add_lshl_u32 v1, v2, v4, v6", 3, 2, 4, 80),
    ("v_lshl_or_b32 v1, v2, v4, v6", 3, 4, 5, 0x35),
    ("v_and_or_b32 v1, v2, v4, v6", 0xFF, 0x3C, 1, 0x3D),
    ("v_or3_b32 v1, v2, v4, v6", 1, 2, 4, 7),
    ("v_xad_u32 v1, v2, v4, v6", 12, 10, 4, 10),
    ("v_bfi_b32 v1, v2, v4, v6", 0xF0, 0xAB, 0xCD, 0xAD),
    ("v_bfe_u32 v1, v2, v4, v6", 0xABCD, 4, 8, 0xBC),
    ("v_bfe_i32 v1, v2, v4, v6", 0xABCD, 4, 8, 0xFFFFFFBC),
    ("v_alignbit_b32 v1, v2, v4, v6", 0x11112222, 0x33334444, 16, 0x22223333),
    ("v_alignbyte_b32 v1, v2, v4, v6", 0x11112222, 0x33334444, 1, 0x22333344),
    ("v_perm_b32 v1, v2, v4, v6", 0x77665544, 0x33221100, 0x07000401, 0x77004411),
    ("v_perm_b32 v1, v2, v4, v6", 0x77665584, 0x33228100, 0x0D0C0A08, 0xFF0000FF),
    ("v_bitop3_b32 v1, v2, v4, v6 bitop3:0x36", 0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA, 0x36363636),
    ("v_bitop3_b32 v1, v2, v4, v6 bitop3:0x80", 7, 6, 5, 4),
    ("v_mad_u32_u24 v1, v2, v4, v6", 3, 4, 5, 17),
    ("v_max3_i32 v1, v2, v4, v6", ONES, 5, 3, 5),
    ("v_min3_u32 v1, v2, v4, v6", ONES, 5, 3, 3),
    ("v_med3_i32 v1, v2, v4, v6", ONES, 5, 3, 3),
    ("v_med3_u32 v1, v2, v4, v6", ONES, 5, 3, 5),
    ("v_sad_u32 v1, v2, v4, v6", 3, 10, 1, 8),
    ("v_add_u16_e32 v1, v2, v4", 0xFFFF, 3, 0, 2),
    ("v_mul_lo_u16_e32 v1, v2, v4", 0x101, 0x101, 0, 0x201),
    ("v_max_i16_e32 v1, v2, v4", 0xFFFF, 1, 0, 1),
    ("v_ashrrev_i16_e32 v1, v2, v4", 3, 0x8000, 0, 0xF000),
    ("v_add_i16 v1, v2, v4", 0x7FFF, 2, 0, 0x8001),
    ("v_sub_i16 v1, v2, v4", 1, 2, 0, 0xFFFF),
    ("v_mad_u16 v1, v2, v4, v6", 0x101, 0x101, 0xFFFF, 0x200),
    ("v_mad_i16 v1, v2, v4, v6", 0xFFFF, 3, 1, 0xFFFE),
    ("v_mad_legacy_i16 v1, v2, v4, v6", 0xFFFF, 3, 1, 0xFFFE),
    ("v_max3_u16 v1, v2, v4, v6", 0xFFFF, 3, 1, 0xFFFF),
    ("v_min3_u16 v1, v2, v4, v6", 0xFFFF, 3, 1, 1),
    ("v_med3_u16 v1, v2, v4, v6", 0xFFFF, 3, 1, 3),
    ("v_max3_i16 v1, v2, v4, v6", 0xFFFF, 3, 1, 3),
    ("v_min3_i16 v1, v2, v4, v6", 0xFFFF, 3, 1, 0xFFFF),
    ("v_med3_i16 v1, v2, v4, v6", 0xFFFF, 3, 1, 1),
    ("v_lerp_u8 v1, v2, v4, v6", 0x0103FF05, 0x0204FF06, 0x01000001, 0x0203FF06),
    ("v_ashr_pk_i8_i32 v1, v2, v4, v6", 0x1234, 0xFFFFFFF0, 33, 0xF87F),
    ("v_ashr_pk_u8_i32 v1, v2, v4, v6", 0x1234, 0xFFFFFFF0, 1, 0x00FF),
    ("v_ashr_pk_u8_i32 v1, v2, v4, v6", 0xFC, 0x10, 2, 0x043F),
    ("v_sat_pk_u8_i16_e32 v1, v2", 0x0100FFFF, 0, 0, 0xFF00),
    ("v_sat_pk_u8_i16_e32 v1, v2", 0x00120034, 0, 0, 0x1234),
    ("v_cvt_pk_i16_i32 v1, v2, v4", 70000, 0xFFFFFFF0, 0, 0xFFF07FFF),
    ("v_cvt_off_f32_i4_e32 v1, v2", 0xFA, 0, 0, f(-6 / 16)),
    ("v_cvt_off_f32_i4_e32 v1, v2", 7, 0, 0, f(7 / 16)),
]

FLOATS = [
    # direction (1, -3, 2) meets the face of -y; ties go to z, then y
    ("v_cubeid_f32 v1, v2, v4, v6", f(1.0), f(-3.0), f(2.0), f(3.0)),
    ("v_cubema_f32 v1, v2, v4, v6", f(1.0), f(-3.0), f(2.0), f(-6.0)),
    ("v_cubesc_f32 v1, v2, v4, v6", f(1.0), f(-3.0), f(2.0), f(1.0)),
    ("v_cubetc_f32 v1, v2, v4, v6", f(1.0), f(-3.0), f(2.0), f(-2.0)),
    ("v_cubeid_f32 v1, v2, v4, v6", f(-3.0), f(3.0), f(-3.0), f(5.0)),
    ("v_cubesc_f32 v1, v2, v4, v6", f(-3.0), f(3.0), f(-3.0), f(3.0)),
    ("v_cubeid_f32 v1, v2, v4, v6", f(-3.0), f(1.0), f(-2.0), f(1.0)),
    ("v_cubesc_f32 v1, v2, v4, v6", f(-3.0), f(1.0), f(-2.0), f(-2.0)),
    ("v_cubetc_f32 v1, v2, v4, v6", f(-3.0), f(1.0), f(-2.0), f(-1.0)),
    ("v_cubema_f32 v1, v2, v4, v6", f(-3.0), f(1.0), f(-2.0), f(-6.0)),
    ("v_cvt_pk_u8_f32 v1, v2, v4, v6", f(2.5), 2, 0x11223344, 0x11023344),
    ("v_cvt_pk_u8_f32 v1, v2, v4, v6", f(300.0), 5, 0x11223344, 0x1122FF44),
    ("v_cvt_pk_u8_f32 v1, v2, v4, v6", f(-3.0), 3, 0x11223344, 0x00223344),
    ("v_cvt_pknorm_i16_f32 v1, v2, v4", f(0.5), f(-7.0), 0, 0x80014000),
    ("v_cvt_pknorm_u16_f32 v1, v2, v4", f(0.5), f(7.0), 0, 0xFFFF8000),
    ("v_cvt_pknorm_i16_f16 v1, v2, v4", h(1.0), h(-0.5), 0, 0xC0007FFF),
    ("v_cvt_pknorm_u16_f16 v1, v2, v4", h(1.0), h(-0.5), 0, 0xFFFF),
    ("v_cvt_norm_i16_f16_e32 v1, v2", h(-1.0), 0, 0, 0x8001),
    ("v_cvt_norm_u16_f16_e32 v1, v2", h(0.25), 0, 0, 0x4000),
    # the product of mad is rounded, that of fma is not
    ("v_mad_f16 v1, v2, v4, v6", h(1.0 + 2**-10), h(1.0 + 2**-10), h(-1.0 - 2**-9), 0),
    ("v_fma_legacy_f16 v1, v2, v4, v6", *[h(1.0 + 2**-10)] * 2, h(-1.0 - 2**-9), h(2**-20)),
    ("v_mad_legacy_f16 v1, v2, v4, v6", h(1.5), h(2.0), h(1.0), h(4.0)),
    ("v_madak_f16 v1, v2, v4, 0x3c00", h(1.5), h(2.0), 0, h(4.0)),
    ("v_madmk_f16 v1, v2, 0x4000, v4", h(1.5), h(1.0), 0, h(4.0)),
    ("v_frexp_mant_f16_e32 v1, v2", h(12.0), 0, 0, h(0.75)),
    ("v_frexp_exp_i16_f16_e32 v1, v2", h(12.0), 0, 0, 4),
    ("v_frexp_exp_i16_f16_e32 v1, v2", h(2**-24), 0, 0, 0xFFE9),
    ("v_div_fixup_legacy_f16 v1, v2, v4, v6", h(2.0), h(-0.0), h(1.0), h(-float("inf"))),
    ("v_add_f32_e32 v1, v2, v4", f(1.5), f(2.25), 0, f(3.75)),
    ("v_sub_f32_e32 v1, v2, v4", f(1.5), f(2.25), 0, f(-0.75)),
    ("v_subrev_f32_e32 v1, v2, v4", f(1.5), f(2.25), 0, f(0.75)),
    ("v_mul_f32_e32 v1, v2, v4", f(1.5), f(-2.0), 0, f(-3.0)),
    ("v_mul_legacy_f32 v1, v2, v4", f(0.0), INF, 0, 0),
    ("v_fma_f32 v1, v2, v4, v6", 0x3F800001, 0x3F800001, 0xBF800002, 0x28800000),
    ("v_fmaak_f32 v1, v2, v4, 0x40400000", f(2.0), f(5.0), 0, f(13.0)),
    ("v_fmamk_f32 v1, v2, 0x40400000, v4", f(2.0), f(5.0), 0, f(11.0)),
    ("v_max_f32_e32 v1, v2, v4", NAN, f(1.0), 0, f(1.0)),
    ("v_max_f32_e32 v1, v2, v4", f(-0.0), f(0.0), 0, 0),
    ("v_min_f32_e32 v1, v2, v4", f(0.0), f(-0.0), 0, 0x80000000),
    ("v_min_f32_e32 v1, v2, v4", f(1.0), NAN, 0, f(1.0)),
    ("v_max3_f32 v1, v2, v4, v6", f(1.0), NAN, f(3.0), f(3.0)),
    ("v_min3_f32 v1, v2, v4, v6", f(1.0), f(-2.0), NAN, f(-2.0)),
    ("v_med3_f32 v1, v2, v4, v6", f(5.0), f(1.0), f(3.0), f(3.0)),
    ("v_maximum3_f32 v1, v2, v4, v6", f(5.0), NAN, f(3.0), NAN),
    ("v_minimum3_f32 v1, v2, v4, v6", f(5.0), f(1.0), f(3.0), f(1.0)),
    ("v_ldexp_f32 v1, v2, v4", f(1.5), 4, 0, f(24.0)),
    ("v_ldexp_f32 v1, v2, v4", f(1.5), 0xFFFFFF00, 0, 0),
    ("v_floor_f32_e32 v1, v2", f(-1.5), 0, 0, f(-2.0)),
    ("v_ceil_f32_e32 v1, v2", f(-1.5), 0, 0, f(-1.0)),
    ("v_trunc_f32_e32 v1, v2", f(-1.75), 0, 0, f(-1.0)),
    ("v_rndne_f32_e32 v1, v2", f(2.5), 0, 0, f(2.0)),
    ("v_fract_f32_e32 v1, v2", f(-0.25), 0, 0, f(0.75)),
    ("v_frexp_mant_f32_e32 v1, v2", f(12.0), 0, 0, f(0.75)),
    ("v_frexp_exp_i32_f32_e32 v1, v2", f(12.0), 0, 0, 4),
    ("v_exp_f32_e32 v1, v2", f(3.0), 0, 0, f(8.0)),
    ("v_exp_f32_e32 v1, v2", f(-200.0), 0, 0, 0),
    ("v_exp_f32_e32 v1, v2", f(-126.5), 0, 0, 0),
    ("v_exp_f32_e32 v1, v2", f(129.0), 0, 0, INF),
    ("v_exp_f32_e32 v1, v2", f(float("-inf")), 0, 0, 0),
    ("v_exp_f32_e32 v1, v2", NAN, 0, 0, NAN),
    ("v_log_f32_e32 v1, v2", f(8.0), 0, 0, f(3.0)),
    ("v_log_f32_e32 v1, v2", 0, 0, 0, f(float("-inf"))),
    ("v_log_f32_e32 v1, v2", f(-1.0), 0, 0, NAN),
    ("v_log_f32_e32 v1, v2", INF, 0, 0, INF),
    ("v_rcp_f32_e32 v1, v2", f(4.0), 0, 0, f(0.25)),
    ("v_rcp_f32_e32 v1, v2", 0x80000000, 0, 0, f(float("-inf"))),
    ("v_rsq_f32_e32 v1, v2", f(4.0), 0, 0, f(0.5)),
    ("v_sqrt_f32_e32 v1, v2", f(9.0), 0, 0, f(3.0)),
    ("v_sin_f32_e32 v1, v2", f(0.25), 0, 0, f(1.0)),
    ("v_cos_f32_e32 v1, v2", f(0.5), 0, 0, f(-1.0)),
    ("v_add_f16_e32 v1, v2, v4", h(1.5), h(2.25), 0, h(3.75)),
    ("v_mul_f16_e32 v1, v2, v4", 1007, h(0.5), 0, 504),
    ("v_max_f16_e32 v1, v2, v4", h(-1.0), h(2.0), 0, h(2.0)),
    ("v_fma_f16 v1, v2, v4, v6", 0x3C01, 0x3C01, 0xBC02, 0x0010),
    ("v_dot2_f32_bf16 v1, v2, v4, v6", 0x40003F80, 0x40404080, f(1.0), f(11.0)),
    ("v_dot2_f32_f16 v1, v2, v4, v6", h(2.0) << 16 | h(1.0), h(3.0) << 16 | h(4.0), 0, f(10.0)),
]


def given(*values: int) -> State:
    state = State()
    for register, value in zip((2, 4, 6), values, strict=False):
        state.v[register], state.v[register + 1] = value & ONES, value >> 32
    return state


@pytest.mark.parametrize(("text", "a", "b", "c", "result"), INTEGERS + FLOATS)
def test_results(text, a, b, c, result):
    state = given(a, b, c)
    step(text, state)
    assert hex(int(state.v[1, 0])) == hex(result)
    assert (state.v[1] == state.v[1, 0]).all()


@pytest.mark.parametrize(
    ("text", "a", "b", "c", "result"),
    [
        ("v_mov_b64_e32 v[8:9], v[2:3]", 1 << 40 | 5, 0, 0, 1 << 40 | 5),
        ("v_lshlrev_b64 v[8:9], v2, v[4:5]", 33, 3, 0, 3 << 33),
        ("v_lshrrev_b64 v[8:9], v2, v[4:5]", 33, 3 << 33, 0, 3),
        ("v_ashrrev_i64 v[8:9], v2, v[4:5]", 62, 1 << 63, 0, 0xFFFFFFFF_FFFFFFFE),
        ("v_lshl_add_u64 v[8:9], v[2:3], v4, v[6:7]", 0xFFFFFFFF, 3, 1, 0x7_FFFFFFF9),
        ("v_add_f64 v[8:9], v[2:3], v[4:5]", 0x3FF0 << 48, 0x4000 << 48, 0, 0x4008 << 48),
        ("v_fma_f64 v[8:9], v[2:3], v[4:5], v[6:7]",
         0x4000 << 48, 0x4008 << 48, 0x3FF0 << 48, 0x401C << 48),
        ("v_mul_f64 v[8:9], v[2:3], v[4:5]", 1, 0x4000 << 48, 0, 2),
        ("v_max_f64 v[8:9], v[2:3], v[4:5]", 0x7FF8 << 48, 0x4000 << 48, 0, 0x4000 << 48),
        ("v_ldexp_f64 v[8:9], v[2:3], v4", 0x3FF0 << 48, 1, 0, 0x4000 << 48),
        ("v_rcp_f64_e32 v[8:9], v[2:3]", 0x4010 << 48, 0, 0, 0x3FD0 << 48),
    ],
)  # fmt: skip
def test_results_of_64_bits(text, a, b, c, result):
    state = given(a, b, c)
    step(text, state)
    assert hex(int(state.v[8, 5]) | int(state.v[9, 5]) << 32) == hex(result)


def test_a_16_bit_result_leaves_the_other_half_unless_it_is_an_old_one():
    for name, upper in (("mad_u16", 0xABCD0000), ("mad_legacy_u16", 0), ("mad_f16", 0xABCD0000)):
        state = State()
        state.v[1] = 0xABCD1234
        step(f"v_{name} v1, v2, v2, v2", state)
        assert state.v[1, 0] == upper


def test_accumulating_instructions_of_16_bits():
    state = State()
    state.v[1], state.v[2], state.v[3] = 0xAAAA3C00, h(1.5), h(2.0)
    step("v_mac_f16_e32 v1, v2, v3", state)
    assert state.v[1, 0] == h(4.0)
    state.floats(2)[:], state.v[3] = 9.0, 1
    step("v_cvt_pkaccum_u8_f32 v1, v2, v3", state)
    assert state.v[1, 0] == h(4.0) & 0xFF | 0x900


def test_an_accumulating_instruction_adds_to_its_result():
    state = given(f(2.0), f(3.0))
    state.floats(1)[:] = 10.0
    step("v_fmac_f32_e32 v1, v2, v4", state)
    np.testing.assert_array_equal(state.floats(1), 16.0)


class TestCarry:
    def test_out(self):
        state = given(ONES, 1)
        state.v[4, ::2] = 0
        step("v_add_co_u32_e32 v1, vcc, v2, v4", state)
        assert state.get64("vcc") == 0xAAAAAAAA_AAAAAAAA
        np.testing.assert_array_equal(state.v[1, :2], [ONES, 0])

    def test_in_and_out(self):
        state = given(ONES, 0)
        state.set64(10, 0b10)
        step("v_addc_co_u32_e64 v1, s[12:13], v2, v4, s[10:11]", state)
        np.testing.assert_array_equal(state.v[1, :3], [ONES, 0, ONES])
        assert state.get64(12) == 0b10

    def test_borrow(self):
        state = given(1, 2)
        step("v_sub_co_u32_e32 v1, vcc, v2, v4", state)
        assert (state.v[1, 0], state.get64("vcc")) == (ONES, 0xFFFFFFFF_FFFFFFFF)

    def test_lanes_that_are_off_carry_nothing(self):
        state = given(ONES, 1)
        state.set64("exec", 0b1001)
        state.set64("vcc", 0xFFFF)
        step("v_add_co_u32_e32 v1, vcc, v2, v4", state)
        assert state.get64("vcc") == 0b1001

    def test_multiply_and_add_of_64_bits(self):
        state = given(ONES, ONES, 0xFFFFFFFF_FFFFFFFF)
        step("v_mad_u64_u32 v[8:9], s[10:11], v2, v4, v[6:7]", state)
        assert (int(state.v[8, 0]), int(state.v[9, 0])) == (0, 0xFFFFFFFE)
        assert state.get64(10) == 0xFFFFFFFF_FFFFFFFF


class TestSelect:
    def test_each_lane_by_its_bit(self):
        state = given(11, 22)
        state.set64("vcc", 0b101)
        step("v_cndmask_b32_e32 v1, v2, v4, vcc", state)
        np.testing.assert_array_equal(state.v[1, :4], [22, 11, 22, 11])

    def test_signs_apply_to_its_sources(self):
        state = given(f(-1.0), f(2.0))
        state.set64(10, 0b10)
        step("v_cndmask_b32_e64 v1, |v2|, -v4, s[10:11]", state)
        np.testing.assert_array_equal(state.floats(1)[:2], [1.0, -2.0])


class TestModifiers:
    @pytest.mark.parametrize(
        ("text", "result"),
        [
            ("v_add_f32_e64 v1, -v2, v4", 2.0),
            ("v_add_f32_e64 v1, |v2|, v4", 8.0),
            ("v_add_f32_e64 v1, -|v2|, v4", 2.0),
            ("v_add_f32_e64 v1, v2, v4 mul:2", 16.0),
            ("v_add_f32_e64 v1, v2, v4 mul:4", 32.0),
            ("v_add_f32_e64 v1, v2, v4 div:2", 4.0),
            ("v_add_f32_e64 v1, v2, v4 clamp", 1.0),
            ("v_add_f32_e64 v1, -v2, -v4 clamp", 0.0),
            ("v_fma_f32 v1, v2, -v4, 1.0", -14.0),
        ],
    )
    def test_of_fp32(self, text, result):
        state = given(f(3.0), f(5.0))
        step(text, state)
        np.testing.assert_array_equal(state.floats(1), np.float32(result))

    def test_clamp_sends_nan_to_zero(self):
        state = given(NAN, f(5.0))
        step("v_add_f32_e64 v1, v2, v4 clamp", state)
        assert not state.v[1].any()

    def test_op_sel_picks_halves_and_keeps_the_other_half_of_the_result(self):
        state = given(h(3.0) << 16 | h(100.0), h(2.0), h(1.0))
        state.v[1] = 0x1234
        step("v_fma_f16 v1, v2, v4, v6 op_sel:[1,0,0,1]", state)
        assert state.v[1, 0] == h(7.0) << 16 | 0x1234

    def test_a_modifier_that_is_not_modelled_stops(self):
        with pytest.raises(UnknownInstruction, match="output modifier"):
            step("v_add_f16_e64 v1, v2, v4 clamp", State())


class TestScalarsAndConstants:
    def test_a_scalar_reaches_all_lanes(self):
        state = given(0, 5)
        state.s[20] = 7
        step("v_add_u32_e32 v1, s20, v4", state)
        np.testing.assert_array_equal(state.v[1], 12)

    @pytest.mark.parametrize(
        ("text", "result"),
        [
            ("v_mov_b32_e32 v1, -16", 0xFFFFFFF0),
            ("v_mov_b32_e32 v1, 0.15915494", 0x3E22F983),
            ("v_mov_b32_e32 v1, 0xff800000", 0xFF800000),
            ("v_add_f32_e32 v1, 1.0, v2", f(1.0)),
            ("v_add_f16_e32 v1, 1.0, v2", h(1.0)),
        ],
    )
    def test_constants(self, text, result):
        state = State()
        step(text, state)
        assert state.v[1, 0] == result

    def test_fp64_constants(self):
        state = given(0x4000 << 48)
        step("v_add_f64 v[8:9], v[2:3], 1.0", state)
        assert state.v[9, 0] == 0x40080000
        step("v_add_f64 v[8:9], v[2:3], -4.0", state)
        assert state.v[9, 0] == 0xC0000000


class TestSdwa:
    @pytest.mark.parametrize(
        ("text", "result"),
        [
            ("v_add_u32_sdwa v1, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 "
             "src1_sel:WORD_1", 0x12 + 0x9ABC),
            ("v_add_u32_sdwa v1, v2, v4 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0 "
             "src1_sel:WORD_0", (0x5678 + 0xDEF0) % 65536 << 16),
            ("v_add_u32_sdwa v1, v2, v4 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE "
             "src0_sel:BYTE_0 src1_sel:BYTE_0", 0x11116811),
            ("v_add_u32_sdwa v1, sext(v2), v4 dst_sel:DWORD dst_unused:UNUSED_PAD "
             "src0_sel:BYTE_2 src1_sel:BYTE_0", 0x34 + 0xF0),
            ("v_add_u32_sdwa v1, v2, sext(v4) dst_sel:DWORD dst_unused:UNUSED_PAD "
             "src0_sel:BYTE_3 src1_sel:WORD_0", (0x12 - (0x10000 - 0xDEF0)) & ONES),
            ("v_add_u32_sdwa v1, v2, v4 dst_sel:BYTE_0 dst_unused:UNUSED_SEXT "
             "src0_sel:BYTE_0 src1_sel:BYTE_1", (0x78 + 0xDE) % 256),
        ],
    )  # fmt: skip
    def test_parts(self, text, result):
        state = given(0x12345678, 0x9ABCDEF0)
        state.v[1] = 0x11111111
        step(text, state)
        assert hex(int(state.v[1, 0])) == hex(result)

    def test_a_float_from_the_high_half(self):
        state = given(h(-2.5) << 16 | h(1.0))
        step("v_cvt_f32_f16_sdwa v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1", state)
        np.testing.assert_array_equal(state.floats(1), -2.5)


ROW = LANES % 16


class TestDpp:
    CASES = (
        ("quad_perm:[3,2,1,0]", (LANES & ~np.uint32(3)) + 3 - LANES % 4, None),
        ("row_shl:1", LANES + 1, ROW == 15),
        ("row_shr:3", LANES - 3, ROW < 3),
        ("row_ror:5", LANES - ROW + (ROW + 11) % 16, None),
        ("wave_shr:1", LANES - 1, LANES == 0),
        ("wave_rol:1", (LANES + 1) % 64, None),
        ("row_mirror", LANES - ROW + 15 - ROW, None),
        ("row_half_mirror", LANES - LANES % 8 + 7 - LANES % 8, None),
        ("row_bcast:15", (LANES // 16 * 16 - 1).astype(np.uint32), LANES < 16),
        ("row_bcast:31", np.full(64, 31, np.uint32), LANES < 32),
        ("row_newbcast:4", LANES // 16 * 16 + 4, None),
    )

    @pytest.mark.parametrize(("control", "source", "outside"), CASES)
    def test_lanes(self, control, source, outside):
        state = State()
        state.v[2] = LANES
        state.v[1] = 1000
        step(f"v_mov_b32_dpp v1, v2 {control} row_mask:0xf bank_mask:0xf", state)
        expected = source if outside is None else np.where(outside, 1000, source)
        np.testing.assert_array_equal(state.v[1], expected)

    @pytest.mark.parametrize(("bound_ctrl", "result"), [("", 1000), (" bound_ctrl:0", 0)])
    def test_a_source_lane_that_is_off_is_outside(self, bound_ctrl, result):
        state = State()
        state.v[2], state.v[1] = 7, 1000
        state.set64("exec", 0b1110)
        controls = "quad_perm:[0,0,1,2] row_mask:0xf bank_mask:0xf"
        step(f"v_mov_b32_dpp v1, v2 {controls}{bound_ctrl}", state)
        np.testing.assert_array_equal(state.v[1, :4], [1000, result, 7, 7])

    def test_bound_ctrl_reads_zero_outside(self):
        state = State()
        state.v[2], state.v[1] = 7, 1000
        step("v_mov_b32_dpp v1, v2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:0", state)
        np.testing.assert_array_equal(state.v[1, :2], [0, 7])

    def test_masks_keep_rows_and_banks(self):
        state = State()
        state.v[2], state.v[1] = 7, 1000
        step("v_mov_b32_dpp v1, v2 quad_perm:[0,1,2,3] row_mask:0x2 bank_mask:0x1", state)
        assert np.flatnonzero(state.v[1] == 7).tolist() == [16, 17, 18, 19]

    def test_the_source_may_be_an_operand_of_arithmetic(self):
        state = State()
        state.v[2], state.v[4] = LANES, 100
        step("v_add_u32_dpp v1, v2, v4 row_shl:1 row_mask:0xf bank_mask:0xf bound_ctrl:0", state)
        np.testing.assert_array_equal(state.v[1, :16], [*range(101, 116), 100])


class TestLanesThatAreOff:
    def test_they_keep_their_value(self):
        state = given(1, 2)
        state.v[1] = 1000
        state.set64("exec", 0xF0)
        step("v_add_u32_e32 v1, v2, v4", state)
        assert np.flatnonzero(state.v[1] == 3).tolist() == [4, 5, 6, 7]
        assert (state.v[1] == 1000).sum() == 60

    def test_wide_results_too(self):
        state = given(1 << 40)
        state.v[8:10] = 1000
        state.set64("exec", 1)
        step("v_mov_b64_e32 v[8:9], v[2:3]", state)
        np.testing.assert_array_equal(state.v[8:10, :2], [[0, 1000], [256, 1000]])


class TestDenormals:
    def test_fp32_ones_are_flushed_in_cupy_mode(self):
        state = given(0x00400000, f(1.0))
        step("v_mul_f32_e32 v1, v2, v4", state)
        assert state.v[1, 0] == 0
        step("v_max_f32_e32 v1, v2, v2", state)
        assert state.v[1, 0] == 0

    def test_they_are_kept_when_the_mode_says_so(self):
        state = given(0x00400000, f(1.0))
        for text in ("v_mul_f32_e32 v1, v2, v4", "v_max_f32_e32 v1, v2, v2"):
            step(text, state, mode=KEEP_DENORMALS)
            assert state.v[1, 0] == 0x00400000

    def test_moves_and_selections_keep_bits(self):
        state = given(0x00000001)
        for text in ("v_mov_b32_e32 v1, v2", "v_cndmask_b32_e64 v1, v2, v2, vcc"):
            step(text, state)
            assert state.v[1, 0] == 1

    def test_fp64_and_fp16_ones_are_kept(self):
        state = given(5)
        step("v_add_f64 v[8:9], v[2:3], v[2:3]", state)
        assert state.v[8, 0] == 10
        step("v_add_f16_e32 v1, v2, v2", state)
        assert state.v[1, 0] == 10


class TestDivision:
    """The sequence that the compiler emits for a / b in full precision."""

    SEQUENCE = (
        "v_div_scale_f32 v10, s[10:11], v4, v4, v2",
        "v_div_scale_f32 v11, vcc, v2, v4, v2",
        "v_rcp_f32_e32 v12, v10",
        "v_fma_f32 v13, -v10, v12, 1.0",
        "v_fmac_f32_e32 v12, v13, v12",
        "v_mul_f32_e32 v13, v11, v12",
        "v_fma_f32 v14, -v10, v13, v11",
        "v_fmac_f32_e32 v13, v14, v12",
        "v_fma_f32 v10, -v10, v13, v11",
        "v_div_fmas_f32 v10, v10, v12, v13",
        "v_div_fixup_f32 v1, v10, v4, v2",
    )

    def test_it_is_correctly_rounded(self):
        rng = np.random.default_rng(5)
        state = State()
        state.floats(2)[:] = rng.standard_normal(64) * 10.0 ** rng.uniform(-30, 30, 64)
        state.floats(4)[:] = rng.standard_normal(64) * 10.0 ** rng.uniform(-30, 30, 64)
        state.v[2, :6] = [0, f(1.0), INF, f(1.0), 0, f(3.0)]
        state.v[4, :6] = [f(1.0), 0, f(2.0), INF, 0, NAN]
        with np.errstate(all="ignore"):
            expected = state.floats(2) / state.floats(4)
        for text in self.SEQUENCE:
            step(text, state, mode=KEEP_DENORMALS)
        np.testing.assert_array_equal(state.floats(1), expected)

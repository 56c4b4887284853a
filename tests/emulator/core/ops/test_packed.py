"""Packed instructions: which half of which source goes where."""

import struct

import numpy as np
import pytest

from rocke_cupy.emulator.program.operands import UnknownInstruction
from rocke_cupy.emulator.step import State, step


def h(low: float, high: float) -> int:
    return int.from_bytes(struct.pack("<ee", low, high), "little")


def given() -> State:
    state = State()
    for register, value in zip(range(2, 8), (1.0, 2.0, 10.0, 20.0, 100.0, 200.0), strict=True):
        state.floats(register)[:] = value
    state.v[20] = h(1.0, 2.0)
    state.v[21] = h(10.0, 20.0)
    state.v[22] = h(100.0, 200.0)
    state.set64(10, 0x40400000_3F800000)  # 1.0 and 3.0
    return state


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("v_pk_add_f32 v[8:9], v[2:3], v[4:5]", 11.0, 22.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5]", 10.0, 40.0),
        ("v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[6:7]", 110.0, 240.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel_hi:[0,1]", 10.0, 20.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel_hi:[1,0]", 10.0, 20.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]", 20.0, 40.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel:[1,1] op_sel_hi:[0,0]", 40.0, 10.0),
        ("v_pk_add_f32 v[8:9], v[2:3], v[4:5] neg_lo:[0,1] neg_hi:[0,1]", -9.0, -18.0),
        ("v_pk_add_f32 v[8:9], v[2:3], v[4:5] neg_lo:[1,0]", 9.0, 22.0),
        ("v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1,0] neg_lo:[0,0,1] "
         "neg_hi:[0,0,1]", -90.0, -80.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], s[10:11]", 1.0, 6.0),
        ("v_pk_mul_f32 v[8:9], v[2:3], 2.0 op_sel_hi:[1,0]", 2.0, 4.0),
        ("v_pk_mov_b32 v[8:9], v[2:3], v[4:5]", 1.0, 10.0),
        ("v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]", 2.0, 10.0),
        ("v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[0,1]", 1.0, 20.0),
    ],
)  # fmt: skip
def test_fp32_pairs(text, low, high):
    state = given()
    step(text, state)
    assert (state.floats(8)[0], state.floats(9)[63]) == (low, high)


def test_a_result_over_its_own_sources():
    state = given()
    step("v_pk_add_f32 v[2:3], v[2:3], v[2:3] op_sel:[1,0] op_sel_hi:[0,1]", state)
    assert (state.floats(2)[0], state.floats(3)[0]) == (3.0, 3.0)


def test_the_high_half_of_a_constant_is_not_modelled():
    with pytest.raises(UnknownInstruction, match="high half of a constant"):
        step("v_pk_mul_f32 v[8:9], v[2:3], 2.0", State())


def test_pairs_under_exec():
    state = given()
    state.set64("exec", 1)
    step("v_pk_add_f32 v[8:9], v[2:3], v[4:5]", state)
    np.testing.assert_array_equal(state.floats(9)[:3], [22.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("v_pk_add_f16 v1, v20, v21", 11.0, 22.0),
        ("v_pk_mul_f16 v1, v20, v21", 10.0, 40.0),
        ("v_pk_fma_f16 v1, v20, v21, v22", 110.0, 240.0),
        ("v_pk_max_f16 v1, v20, v21", 10.0, 20.0),
        ("v_pk_maximum3_f16 v1, v20, v21, v22", 100.0, 200.0),
        ("v_pk_minimum3_f16 v1, v20, v21, v22", 1.0, 2.0),
        ("v_pk_min_f16 v1, v20, v21", 1.0, 2.0),
        ("v_pk_add_f16 v1, v20, v21 op_sel:[1,0] op_sel_hi:[0,1]", 12.0, 21.0),
        ("v_pk_add_f16 v1, v20, v21 neg_lo:[0,1] neg_hi:[1,0]", -9.0, 18.0),
        ("v_pk_mul_f16 v1, v20, 2.0 op_sel_hi:[1,0]", 2.0, 4.0),
    ],
)
def test_fp16_pairs(text, low, high):
    state = given()
    step(text, state)
    assert state.v[1, 0] == h(low, high)


def test_fp16_pairs_accumulate():
    state = given()
    state.v[1] = h(0.5, np.nan)
    step("v_pk_fmac_f16_e32 v1, v20, v21", state)
    assert state.v[1, 0] & 0xFFFF == h(10.5, 0)
    assert np.isnan(state.v[1:2].view(np.float16)[0, 1])


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("v_pk_add_u16 v1, v2, v4", 0x0004_0001),
        ("v_pk_sub_i16 v1, v2, v4", 0xFFFE_FFFD),
        ("v_pk_mul_lo_u16 v1, v2, v4", 0x0003_FFFE),
        ("v_pk_max_u16 v1, v2, v4", 0x0003_FFFF),
        ("v_pk_max_i16 v1, v2, v4", 0x0003_0002),
        ("v_pk_min_i16 v1, v2, v4", 0x0001_FFFF),
        ("v_pk_lshlrev_b16 v1, v2, v4", 0x0006_0000),
        ("v_pk_ashrrev_i16 v1, v4, v2", 0x0000_FFFF),
        ("v_pk_mad_u16 v1, v2, v4, v4", 0x0006_0000),
    ],
)
def test_integer_pairs(text, result):
    state = State()
    state.v[2], state.v[4] = 0x0001_FFFF, 0x0003_0002
    step(text, state)
    assert hex(int(state.v[1, 0])) == hex(result)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("v_fma_mix_f32 v1, v2, v4, v6", 110.0),
        ("v_fma_mix_f32 v1, v20, v4, v6 op_sel_hi:[1,0,0]", 110.0),
        ("v_fma_mix_f32 v1, v20, v21, v6 op_sel:[1,1,0] op_sel_hi:[1,1,0]", 140.0),
        ("v_fma_mix_f32 v1, -v20, |v21|, v6 op_sel_hi:[1,1,0]", 90.0),
    ],
)
def test_mixed_precision(text, result):
    state = given()
    step(text, state)
    assert state.floats(1)[0] == result


def test_mixed_precision_with_an_fp16_result():
    state = given()
    step("v_fma_mixlo_f16 v1, v2, v4, v6", state)
    step("v_fma_mixhi_f16 v1, v2, v4, 1.0", state)
    assert state.v[1, 0] == h(110.0, 11.0)

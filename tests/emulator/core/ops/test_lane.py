"""Data that crosses lanes or register files."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError
from rocke_cupy.emulator.step import ACCUM_OFFSET, State, step

LANES = np.arange(64, dtype=np.uint32)


def numbered() -> State:
    state = State()
    state.v[1], state.v[2] = LANES, LANES + 100
    return state


class TestReadFirstLane:
    @pytest.mark.parametrize(
        ("exec_mask", "lane"), [(0xFFFFFFFF_FFFFFFFF, 0), (1 << 40 | 1 << 50, 40), (0, 0)]
    )
    def test_it_reads_the_first_lane_that_is_on_or_lane_0(self, exec_mask, lane):
        state = numbered()
        state.set64("exec", exec_mask)
        step("v_readfirstlane_b32 s5, v2", state)
        assert state.s[5] == lane + 100


def test_readlane_takes_its_lane_modulo_64():
    state = numbered()
    state.s[8] = 64 + 7
    step("v_readlane_b32 s5, v2, s8", state)
    assert state.s[5] == 107


def test_writelane_ignores_exec():
    state = numbered()
    state.set64("exec", 0)
    state.s[8] = 5
    step("v_writelane_b32 v1, s8, 63", state)
    np.testing.assert_array_equal(state.v[1, 62:], [62, 5])


class TestSwaps:
    def test_of_32_lanes(self):
        state = numbered()
        step("v_permlane32_swap_b32_e32 v1, v2", state)
        np.testing.assert_array_equal(state.v[1], np.r_[LANES[:32], LANES[:32] + 100])
        np.testing.assert_array_equal(state.v[2], np.r_[LANES[32:], LANES[32:] + 100])

    def test_of_16_lanes(self):
        state = numbered()
        step("v_permlane16_swap_b32_e32 v1, v2", state)
        first, second = np.arange(16), np.arange(100, 116)
        np.testing.assert_array_equal(state.v[1], np.r_[first, second, first + 32, second + 32])
        np.testing.assert_array_equal(
            state.v[2], np.r_[first + 16, second + 16, first + 48, second + 48]
        )

    def test_a_pair_of_lanes_that_are_off_is_not_written(self):
        state = numbered()
        state.set64("exec", 0x0000000F_0000000F)
        step("v_permlane32_swap_b32_e32 v1, v2", state)
        np.testing.assert_array_equal(state.v[1], np.r_[LANES[:32], LANES[:4] + 100, LANES[36:]])
        np.testing.assert_array_equal(state.v[2], np.r_[LANES[32:36], LANES[4:] + 100])

    @pytest.mark.parametrize("exec_mask", [0xFFFFFFFF, 0xFFFFFFFF_00000000, 1 << 63])
    def test_half_a_pair_is_not_defined(self, exec_mask):
        state = numbered()
        state.set64("exec", exec_mask)
        with pytest.raises(EmulationError, match="one of the two lanes off"):
            step("v_permlane32_swap_b32_e32 v1, v2", state)

    def test_v_swap_exchanges_whole_registers(self):
        state = numbered()
        state.set64("exec", 0b11)
        step("v_swap_b32 v1, v2", state)
        np.testing.assert_array_equal(state.v[1, :3], [100, 101, 2])
        np.testing.assert_array_equal(state.v[2, :3], [0, 1, 102])


def test_mbcnt_counts_the_mask_bits_of_lower_lanes():
    state = State()
    state.set64(10, 0xF0F0F0F0_00FF00FF)
    step("v_mbcnt_lo_u32_b32 v1, s10, 0", state)
    step("v_mbcnt_hi_u32_b32 v1, s11, v1", state)
    mask = 0xF0F0F0F0_00FF00FF
    expected = [(mask & ((1 << lane) - 1)).bit_count() for lane in range(64)]
    np.testing.assert_array_equal(state.v[1], expected)


class TestAccumulationRegisters:
    def test_they_lie_behind_the_offset_of_the_kernel(self):
        state = numbered()
        step("v_accvgpr_write_b32 a3, v2", state)
        np.testing.assert_array_equal(state.v[ACCUM_OFFSET + 3], LANES + 100)
        step("v_accvgpr_mov_b32 a4, a3", state)
        step("v_accvgpr_read_b32 v9, a4", state)
        np.testing.assert_array_equal(state.v[9], LANES + 100)

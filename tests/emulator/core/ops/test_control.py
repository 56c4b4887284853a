"""Program flow and hardware registers."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, hiprtc, load, run
from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.core.gfx950 import PRIVATE_BASE, SHARED_BASE
from rocke_cupy.emulator.step import SCC, State, step

MODE_DENORM = "hwreg(HW_REG_MODE, 4, 2)"


@pytest.mark.parametrize(
    ("text", "scc", "vcc", "exec_mask", "taken"),
    [
        ("s_branch 10", 0, 0, 1, True),
        ("s_cbranch_scc0 10", 0, 0, 1, True),
        ("s_cbranch_scc0 10", 1, 0, 1, False),
        ("s_cbranch_scc1 10", 1, 0, 1, True),
        ("s_cbranch_scc1 10", 0, 0, 1, False),
        ("s_cbranch_vccz 10", 0, 0, 1, True),
        ("s_cbranch_vccz 10", 0, 1 << 63, 1, False),
        ("s_cbranch_vccnz 10", 0, 1 << 63, 1, True),
        ("s_cbranch_execz 10", 0, 0, 0, True),
        ("s_cbranch_execz 10", 0, 0, 1 << 40, False),
        ("s_cbranch_execnz 10", 0, 0, 1 << 40, True),
    ],
)
def test_branches(text, scc, vcc, exec_mask, taken):
    state = State()
    state.s[SCC] = scc
    state.set64("vcc", vcc)
    state.set64("exec", exec_mask)
    assert step(text, state) == (44 if taken else 4)


@pytest.mark.parametrize(
    "text", ["s_nop 7", "s_setprio 2", "s_sleep 1", "s_wakeup", "s_dcache_inv", "ds_nop"]
)
def test_instructions_without_effect(text):
    state = State()
    before = state.s.copy()
    step(text, state)
    np.testing.assert_array_equal(state.s, before)


def stored(body: str, grid: int = 1) -> np.ndarray:
    """Run a body that leaves its result in v2."""
    out = np.zeros(64 * grid, np.uint32)
    text = f"""
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_lshl_b32 s6, s2, 8
  v_lshl_add_u32 v1, v0, 2, s6
  s_waitcnt lgkmcnt(0)
{body}
  global_store_dword v1, v2, s[4:5]
  s_endpgm
"""
    run(assemble_kernel("k", text), "k", (grid,), (64,), [out])
    return out


def test_calls_and_returns():
    out = stored("""
  v_mov_b32_e32 v2, 1
  s_getpc_b64 s[10:11]
here:
  s_add_u32 s10, s10, function-here
  s_addc_u32 s11, s11, 0
  s_swappc_b64 s[12:13], s[10:11]
  v_add_u32_e32 v2, 100, v2
  s_branch after
function:
  v_add_u32_e32 v2, 10, v2
  s_setpc_b64 s[12:13]
after:
""")
    np.testing.assert_array_equal(out, 111)


def test_a_jump_to_nowhere():
    with pytest.raises(EmulationError, match="not the start of an instruction"):
        stored("s_mov_b64 s[10:11], 0\ns_setpc_b64 s[10:11]")


class TestMode:
    def test_code_may_switch_denormals_on_and_off(self):
        body = """
  v_mov_b32_e32 v3, 1.0
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), {on}
  v_mul_f32_e32 v2, 0x400000, v3
  s_nop 0
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), {after}
"""
        np.testing.assert_array_equal(stored(body.format(on=3, after=0)), 0x400000)
        np.testing.assert_array_equal(stored(body.format(on=0, after=3)), 0)

    @pytest.mark.parametrize(
        ("rounding", "result"), [(0, 0x3F800000), (1, 0x3F800001), (2, 0x3F800000), (3, 0x3F800000)]
    )
    def test_rounding(self, rounding, result):
        body = f"""
  s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), {rounding}
  v_mov_b32_e32 v3, 0x30800000
  v_add_f32_e32 v2, 1.0, v3
"""
        np.testing.assert_array_equal(stored(body), result)

    def test_it_can_be_read(self):
        out = stored("s_getreg_b32 s10, hwreg(HW_REG_MODE, 4, 4)\nv_mov_b32_e32 v2, s10")
        np.testing.assert_array_equal(out, 0b1100)

    @pytest.mark.parametrize(
        "field", ["hwreg(HW_REG_MODE, 2, 2), 1", "hwreg(HW_REG_MODE, 6, 2), 0"]
    )
    def test_the_mode_of_fp16_and_fp64_is_not_modelled(self, field):
        with pytest.raises(EmulationError, match="fp16 and fp64 other than to nearest"):
            stored(f"s_setreg_imm32_b32 {field}\nv_mov_b32_e32 v2, 0")

    def test_other_registers_stop(self):
        with pytest.raises(EmulationError, match="hardware register 5 is not modelled"):
            stored("s_getreg_b32 s10, hwreg(HW_REG_GPR_ALLOC)\nv_mov_b32_e32 v2, s10")


def test_xcc_ids_go_round_the_eight_dies():
    out = stored("s_getreg_b32 s10, hwreg(HW_REG_XCC_ID)\nv_mov_b32_e32 v2, s10", grid=10)
    np.testing.assert_array_equal(out[::64], [0, 1, 2, 3, 4, 5, 6, 7, 0, 1])


def test_the_place_of_a_wave():
    read = "s_getreg_b32 s10, hwreg(HW_REG_HW_ID)\nv_mov_b32_e32 v2, s10"
    out = stored(read, grid=600)[::64]
    die = np.arange(600) % 8
    engine, unit, place = out >> 13 & 7, out >> 8 & 15, out >> 16 & 15
    np.testing.assert_array_equal(out & 0x3F, 0)  # the first wave, on the first SIMD
    assert (set(engine), set(unit)) == (set(range(4)), set(range(8)))
    # the 256 compute units of the device are filled one after the other
    units = set(zip(die[:256], engine[:256], unit[:256], strict=True))
    assert len(units) == 256
    np.testing.assert_array_equal(place, np.arange(600) // 256)


def test_the_apertures_are_those_of_flat_addresses():
    text = "s_getreg_b32 s10, hwreg(HW_REG_SH_MEM_BASES)\nv_mov_b32_e32 v2, s10"
    np.testing.assert_array_equal(stored(text), SHARED_BASE >> 16 << 16 | PRIVATE_BASE >> 16)
    np.testing.assert_array_equal(stored(text.replace("SH_MEM_BASES", "TRAPSTS")), 0)


CLOCKS = """
extern "C" __global__ __launch_bounds__(64) void clocks(long long* out) {
    long long start = clock64(), wall = wall_clock64();
    while (clock64() - start < 5000) {}
    out[2 * threadIdx.x] = clock64() - start;
    out[2 * threadIdx.x + 1] = wall_clock64() - wall;
}
"""


@pytest.mark.parametrize("rocm", ["7.0", "7.14"])
@pytest.mark.parametrize("schedule", ["lockstep", "to_barrier"])
def test_clocks_advance(rocm, schedule):
    out = np.zeros((64, 2), np.int64)
    code = hiprtc.compile(CLOCKS, rocm=rocm).code
    run(code, "clocks", (1,), (64,), [out], schedule=schedule)
    assert (out[:, 0] >= 5000).all()
    assert (out[:, 0] < 10000).all()
    assert (out[:, 1] >= 5000 // 24).all()


def test_a_clock_is_waited_for():
    with pytest.raises(EmulationError, match="early read of s10"):
        stored("s_memtime s[10:11]\nv_mov_b32_e32 v2, s10")


def test_wave_start():
    """Thread ids are packed in v0, workgroup ids follow the user registers."""
    body = """
  s_load_dwordx2 s[6:7], s[0:1], 0x0
  s_lshl_b32 s8, s4, 1
  s_add_u32 s8, s8, s3
  s_lshl_b32 s8, s8, 1
  s_add_u32 s8, s8, s2
  s_mulk_i32 s8, 0x120
  v_and_b32_e32 v1, 0x3ff, v0
  v_bfe_u32 v2, v0, 10, 10
  v_lshrrev_b32_e32 v3, 20, v0
  v_mad_u32_u24 v4, v3, 4, v2
  v_mul_u32_u24_e32 v4, 6, v4
  v_add_lshl_u32 v4, v4, v1, 2
  v_add_u32_e32 v4, s8, v4
  s_waitcnt lgkmcnt(0)
  global_store_dword v4, v0, s[6:7]
  s_endpgm
"""
    out = np.zeros((2, 2, 2, 3, 4, 6), np.uint32)
    run(assemble_kernel("k", body), "k", (2, 2, 2), (6, 4, 3), [out])
    z, y, x = np.meshgrid(np.arange(3), np.arange(4), np.arange(6), indexing="ij")
    np.testing.assert_array_equal(out, np.broadcast_to(x | y << 10 | z << 20, out.shape))


def test_a_kernel_that_wants_one_dimension_gets_plain_ids():
    source = """
extern "C" __global__ __launch_bounds__(64) void k(int* out) {
    atomicAdd(out + threadIdx.x, 1);
}
"""
    out = np.zeros(16, np.int32)
    run(hiprtc.compile(source).code, "k", (1,), (16, 4), [out])
    np.testing.assert_array_equal(out, 4)


def test_the_program_knows_its_instructions():
    program = load(assemble_kernel("k", "s_nop 1\ns_endpgm"))
    assert [i.text for i in program.instructions[:2]] == ["s_nop 1", "s_endpgm"]

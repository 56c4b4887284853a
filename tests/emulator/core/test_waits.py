"""Waits: what s_waitcnt covers, when effects happen, and what is reported when it is too early."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, run
from rocke_cupy.emulator.assemble import assemble_kernel

MEMORIES = ("eager", "lazy")
POISON = 0x7FF97FF9

START = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
"""
END = """
  global_store_dword v1, {result}, s[6:7]
  s_endpgm
"""


def launch(
    body, *, memory="lazy", result="v2", lds_size=1024, waves=1, accum_offset=None, **options
):
    """Run a body between START and END on in = 100, 101, ..; returns what it stored."""
    code = assemble_kernel(
        "k",
        START + body + END.format(result=result),
        pointers=2,
        lds_size=lds_size,
        accum_offset=accum_offset,
    )
    data, out = np.arange(100, 100 + 256, dtype=np.uint32), np.zeros(64 * waves, np.uint32)
    run(code, "k", (1,), (64 * waves,), [data, out], memory=memory, **options)
    return out


def fails(body, **options) -> EmulationError:
    with pytest.raises(EmulationError) as caught:
        launch(body, **options)
    return caught.value


LANES = np.arange(64, dtype=np.uint32)


@pytest.mark.parametrize("memory", MEMORIES)
class TestVmcnt:
    two_loads = """
  global_load_dword v2, v1, s[4:5]
  global_load_dword v3, v1, s[4:5] offset:4
"""

    def test_counts_retire_in_order(self, memory):
        out = launch(self.two_loads + "s_waitcnt vmcnt(1)", memory=memory, result="v2")
        np.testing.assert_array_equal(out, LANES + 100)

    def test_the_younger_load_is_not_covered(self, memory):
        error = fails(self.two_loads + "s_waitcnt vmcnt(1)", memory=memory, result="v3")
        assert error.kind == "early"
        assert "early read of v3" in str(error)
        assert "global_load_dword v3, v1, s[4:5] offset:4" in str(error)
        assert "global_store_dword v1, v3, s[6:7]" in str(error)

    def test_a_store_counts_too(self, memory):
        body = """
  global_load_dword v2, v1, s[4:5]
  global_store_dword v1, v0, s[6:7]
  s_waitcnt vmcnt(1)
"""
        np.testing.assert_array_equal(launch(body, memory=memory), LANES + 100)

    def test_lds_dma_counts_too(self, memory):
        body = """
  s_mov_b32 m0, 0
  global_load_dword v2, v1, s[4:5]
  global_load_lds_dword v1, s[4:5]
  s_waitcnt vmcnt(1)
"""
        np.testing.assert_array_equal(launch(body, memory=memory), LANES + 100)

    def test_overwriting_a_register_under_load_is_reported(self, memory):
        body = "global_load_dword v2, v1, s[4:5]\nv_mov_b32_e32 v2, 0\ns_waitcnt vmcnt(0)"
        assert "early overwriting of v2" in str(fails(body, memory=memory))

    def test_a_later_load_may_name_the_same_register(self, memory):
        body = """
  global_load_dword v2, v1, s[4:5]
  global_load_dword v2, v1, s[4:5] offset:4
  s_waitcnt vmcnt(0)
"""
        np.testing.assert_array_equal(launch(body, memory=memory), LANES + 101)

    def test_the_first_of_two_loads_of_a_register_does_not_free_it(self, memory):
        body = """
  global_load_dword v2, v1, s[4:5]
  global_load_dword v2, v1, s[4:5] offset:4
  s_waitcnt vmcnt(1)
"""
        assert "early read of v2" in str(fails(body, memory=memory))

    def test_a_64th_operation_waits_for_the_first(self, memory):
        load, store = "global_load_dword v2, v1, s[4:5]\n", "global_store_dword v1, v0, s[6:7]\n"
        out = launch(load + 63 * store, memory=memory)
        np.testing.assert_array_equal(out, LANES + 100)
        assert "early read of v2" in str(fails(load + 62 * store, memory=memory))

    def test_counts_of_more_than_four_bits(self, memory):
        load, store = "global_load_dword v2, v1, s[4:5]\n", "global_store_dword v1, v0, s[6:7]\n"
        body = load + 17 * store + "s_waitcnt vmcnt({count})"
        out = launch(body.format(count=17), memory=memory)
        np.testing.assert_array_equal(out, LANES + 100)
        assert "early read of v2" in str(fails(body.format(count=18), memory=memory))


@pytest.mark.parametrize("memory", MEMORIES)
class TestLgkmcnt:
    def test_lds_operations_are_in_order(self, memory):
        body = """
  v_add_u32_e32 v3, 7, v0
  ds_write_b32 v1, v3
  ds_read_b32 v2, v1
  ds_read_b32 v4, v1
  s_waitcnt lgkmcnt(1)
"""
        np.testing.assert_array_equal(launch(body, memory=memory), LANES + 7)
        assert "early read of v4" in str(fails(body, memory=memory, result="v4"))

    def test_vmcnt_does_not_cover_lds(self, memory):
        body = "ds_write_b32 v1, v0\nds_read_b32 v2, v1\ns_waitcnt vmcnt(0)"
        assert "early read of v2" in str(fails(body, memory=memory))

    def test_only_zero_covers_a_scalar_load(self, memory):
        body = """
  s_load_dword s8, s[4:5], 0x0
  ds_write_b32 v1, v0
  s_waitcnt lgkmcnt({count})
  v_mov_b32_e32 v2, s8
"""
        error = fails(body.format(count=1), memory=memory)
        assert "early read of s8" in str(error)
        np.testing.assert_array_equal(launch(body.format(count=0), memory=memory), 100)

    def test_a_scalar_load_makes_partial_counts_worth_less(self, memory):
        # two LDS reads and a scalar load: lgkmcnt(1) may leave the second read outstanding
        body = """
  ds_write_b32 v1, v0
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v2, v1
  ds_read_b32 v3, v1
  s_load_dword s8, s[4:5], 0x0
  s_waitcnt lgkmcnt(1)
"""
        np.testing.assert_array_equal(launch(body, memory=memory, result="v2"), LANES)
        assert "early read of v3" in str(fails(body, memory=memory, result="v3"))

    def test_flat_loads_need_both_counters(self, memory):
        body = """
  v_mov_b32_e32 v5, s5
  v_add_co_u32_e32 v4, vcc, s4, v1
  s_nop 1
  v_addc_co_u32_e32 v5, vcc, 0, v5, vcc
  flat_load_dword v2, v[4:5]
  s_waitcnt {wait}
"""
        both = launch(body.format(wait="vmcnt(0) lgkmcnt(0)"), memory=memory)
        np.testing.assert_array_equal(both, LANES + 100)
        for wait in ("vmcnt(0)", "lgkmcnt(0)"):
            assert "early read of v2" in str(fails(body.format(wait=wait), memory=memory))


class TestLazy:
    """Where no check stops it, a lazy machine shows stale data and an eager one does not."""

    def test_lds_reads_sample_at_the_wait(self):
        # the wave itself overwrites what its read has not fetched yet, by DMA
        body = """
  v_mov_b32_e32 v3, 5
  s_mov_b32 m0, 0
  ds_write_b32 v1, v3
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v2, v1
  global_load_lds_dword v1, s[4:5]
  s_waitcnt vmcnt(0)
  s_waitcnt lgkmcnt(0)
"""
        np.testing.assert_array_equal(launch(body, memory="eager", races=False), 5)
        np.testing.assert_array_equal(launch(body, memory="lazy", races=False), LANES + 100)

    @pytest.mark.parametrize("memory", MEMORIES)
    def test_a_load_sees_memory_as_of_its_place_in_the_queue(self, memory):
        body = """
  global_store_dword v1, v0, s[6:7]
  global_load_dword v2, v1, s[6:7]
  global_store_dword v1, v1, s[6:7]
  s_waitcnt vmcnt(0)
"""
        np.testing.assert_array_equal(launch(body, memory=memory), LANES)

    def test_dma_lands_at_the_wait(self):
        body = """
  s_mov_b32 m0, 0
  s_nop 0
  global_load_lds_dword v1, s[4:5]
  ds_read_b32 v2, v1
  s_waitcnt lgkmcnt(0)
  s_waitcnt vmcnt(0)
"""
        np.testing.assert_array_equal(launch(body, memory="eager", races=False), LANES + 100)
        np.testing.assert_array_equal(launch(body, memory="lazy", races=False), POISON)


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_branch_on_vcc_reads_it(memory):
    load = "s_load_dwordx2 vcc, s[4:5], 0x0\n"
    branch = "s_cbranch_vccnz next\nnext:\nv_mov_b32_e32 v2, 0"
    error = fails(load + branch, memory=memory)
    assert error.kind == "early"
    assert "s_cbranch_vccnz" in str(error)
    launch(load + "s_waitcnt lgkmcnt(0)\n" + branch, memory=memory)


@pytest.mark.parametrize("memory", MEMORIES)
class TestRegistersHaveTheirNames:
    def test_accumulation_registers(self, memory):
        error = fails(
            "global_load_dwordx2 a[2:3], v1, s[4:5]\nv_accvgpr_read_b32 v2, a3",
            memory=memory,
            accum_offset=32,
        )
        assert "early read of a3:" in str(error)

    def test_vector_registers_beside_them(self, memory):
        error = fails(
            "global_load_dword v31, v1, s[4:5]\nv_accvgpr_write_b32 a0, v31",
            memory=memory,
            accum_offset=32,
        )
        assert "early read of v31:" in str(error)

    @pytest.mark.parametrize("name", ["s20", "vcc_hi", "flat_scratch_lo"])
    def test_scalar_registers(self, memory, name):
        error = fails(f"s_load_dword {name}, s[4:5], 0x0\ns_mov_b32 s9, {name}", memory=memory)
        assert f"early read of {name}:" in str(error)


@pytest.mark.parametrize("text", ["v_mov_b32_e32 v2, v32", "v_accvgpr_read_b32 v2, a32"])
def test_registers_that_the_kernel_does_not_have(text):
    """v32 would be a0: the accumulation registers are the upper part of one file."""
    launch("v_mov_b32_e32 v2, v31\nv_accvgpr_read_b32 v2, a31", accum_offset=32)
    with pytest.raises(EmulationError, match="a register past the kernel's allocation"):
        launch(text, accum_offset=32)


@pytest.mark.parametrize("register", ["vcc_lo", "vcc_hi", "m0", "s20"])
def test_scalar_registers_start_as_poison(register):
    np.testing.assert_array_equal(launch(f"v_mov_b32_e32 v2, {register}"), POISON)

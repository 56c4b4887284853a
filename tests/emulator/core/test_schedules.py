"""Barriers, schedules, limits, and what stops a launch."""

import _thread
import re
import threading
import time

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, Report, launch, load, run
from rocke_cupy.emulator.assemble import assemble_kernel

SCHEDULES = ("lockstep", "to_barrier", "random")

WAVE = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshrrev_b32_e32 v2, 6, v0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  v_readfirstlane_b32 s8, v2
"""
LOOP = """
again:
  s_add_u32 s9, s9, 1
  s_branch again
"""


def one(body: str, threads: int = 128, grid: int = 1, **options) -> tuple[Report, np.ndarray]:
    out = np.zeros(threads * grid, np.uint32)
    code = assemble_kernel("k", WAVE + body, lds_size=1024)
    return run(code, "k", (grid,), (threads,), [out], **options), out


@pytest.mark.parametrize("schedule", SCHEDULES)
class TestBarriers:
    # wave 0 ends at once
    one_skips = """
  s_cmp_eq_u32 s8, 0
  s_cbranch_scc1 end
  s_barrier
  s_barrier
end:
  s_endpgm
"""

    @pytest.mark.parametrize("threads", [128, 256])
    def test_a_wave_that_has_ended_is_not_waited_for(self, schedule, threads):
        report, _ = one(self.one_skips, threads, schedule=schedule)
        assert report.count("s_barrier") == 2 * (threads // 64 - 1)

    def test_a_wave_that_skips_one_is_reported_if_all_should_take_part(self, schedule):
        with pytest.raises(EmulationError, match="s_barrier mismatch") as caught:
            one(self.one_skips, schedule=schedule, equal_barriers=True)
        assert caught.value.kind == "barrier"
        assert "s_endpgm" in str(caught.value)

    def test_an_extra_barrier_at_entry_and_at_exit_staggers_the_waves(self, schedule):
        body = """
  s_cmp_eq_u32 s8, 0
  s_cbranch_scc1 first
  s_barrier
first:
  s_barrier
  s_barrier
  s_cmp_eq_u32 s8, 0
  s_cbranch_scc0 last
  s_barrier
last:
  s_endpgm
"""
        report, _ = one(body, schedule=schedule, equal_barriers=True)
        assert report.count("s_barrier") == 6

    def test_no_wave_passes_before_all_have_arrived(self, schedule):
        # wave 1 counts to 1000 before it writes; wave 0 reads what it wrote
        body = """
  s_cmp_eq_u32 s8, 0
  s_cbranch_scc1 wait
  s_mov_b32 s9, 0
count:
  s_addk_i32 s9, 0x1
  s_cmp_lt_u32 s9, 1000
  s_cbranch_scc1 count
  v_mov_b32_e32 v3, s9
  ds_write_b32 v1, v3
  s_waitcnt lgkmcnt(0)
wait:
  s_barrier
  v_xor_b32_e32 v4, 0x100, v1
  ds_read_b32 v5, v4
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v5, s[4:5]
  s_endpgm
"""
        _, out = one(body, schedule=schedule)
        np.testing.assert_array_equal(out[:64], 1000)


class TestSchedules:
    # each wave takes a ticket from LDS, so the values show the order in which waves ran
    ticket = """
  v_mov_b32_e32 v3, 0
  v_mov_b32_e32 v4, 1
  s_mov_b64 exec, 1
  ds_add_rtn_u32 v5, v3, v4
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v5, s[4:5]
  s_endpgm
"""

    def order(self, **options) -> list[int]:
        _, out = one(self.ticket, threads=512, races=False, **options)
        return [int(v) - int(out[::64].min()) for v in out[::64]]

    def test_to_barrier_runs_one_wave_after_the_other(self):
        assert self.order(schedule="to_barrier") == list(range(8))

    def test_random_is_repeatable_and_follows_the_seed(self):
        assert self.order(schedule="random", seed=3) == self.order(schedule="random", seed=3)
        orders = {tuple(self.order(schedule="random", seed=seed)) for seed in range(6)}
        assert len(orders) > 1

    def test_lockstep_takes_turns(self):
        assert self.order(schedule="lockstep", quantum=1) == list(range(8))

    def test_workgroups_can_be_chosen(self):
        body = """
  s_lshl_b32 s9, s2, 8
  s_add_u32 s4, s4, s9
  s_addc_u32 s5, s5, 0
  v_mov_b32_e32 v3, 7
  global_store_dword v1, v3, s[4:5]
  s_endpgm
"""
        report, out = one(body, threads=64, grid=8, workgroups=[1, 6])
        assert report.workgroups == 2
        assert np.flatnonzero(out[::64]).tolist() == [1, 6]
        with pytest.raises(ValueError, match="workgroups must be linear ids below 8"):
            one(body, threads=64, grid=8, workgroups=[8])


class TestLimits:
    def test_a_hang_names_the_loop(self):
        with pytest.raises(EmulationError, match="no end after") as caught:
            one(LOOP, max_instructions=10_000)
        assert caught.value.kind == "hang"
        assert "s_branch" in str(caught.value)
        assert "looping from" in str(caught.value)
        assert "s_add_u32 s9, s9, 1" in str(caught.value)
        count = int(re.search(r"after (\d+) instructions", str(caught.value))[1])
        assert 10_000 <= count < 10_000 + 16  # the turn is not cut short

    def test_a_hang_with_barriers_in_the_loop(self):
        with pytest.raises(EmulationError, match="no end after"):
            one(LOOP.replace("again:", "again:\n  s_barrier"), max_instructions=10_000)

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_a_barrier_that_a_wave_never_reaches(self, schedule):
        body = f"""
  s_cmp_eq_u32 s8, 1
  s_cbranch_scc1 again
  s_barrier
  s_endpgm
{LOOP}"""
        with pytest.raises(EmulationError, match="wave 0 waits for it at an s_barrier") as caught:
            one(body, schedule=schedule, max_instructions=10_000)
        assert (caught.value.kind, caught.value.wave) == ("hang", 1)

    def test_running_past_the_end(self):
        with pytest.raises(EmulationError, match="past the end of the code"):
            one("s_nop 0")

    def test_ctrl_c_ends_it_soon(self):
        timer = threading.Timer(0.3, _thread.interrupt_main)
        timer.start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            one(LOOP, grid=4, threads=64)
        assert time.monotonic() - started < 5

    def test_progress_is_told(self):
        told = []

        def progress(done, total):
            told.append((done, total))
            if len(told) == 3:
                raise TimeoutError("enough")

        program = load(assemble_kernel("k", WAVE + LOOP))
        with pytest.raises(TimeoutError, match="enough"):
            launch(
                program, "k", (1,), (64,), bytes(8), [], max_instructions=1 << 62, progress=progress
            )
        assert told == [(0, 1)] * 3


class TestUnknown:
    def test_it_stops_where_it_is_reached(self):
        with pytest.raises(
            EmulationError, match="not modelled: instruction s_cbranch_g_fork"
        ) as caught:
            one("s_cbranch_g_fork s[10:11], s[12:13]\ns_endpgm")
        assert caught.value.kind == "unknown"
        assert "s_cbranch_g_fork s[10:11], s[12:13]" in str(caught.value)

    def test_code_that_is_not_reached_does_not_matter(self):
        report, _ = one("s_branch end\ns_cbranch_g_fork s[10:11], s[12:13]\nend:\ns_endpgm")
        assert report.count("s_cbranch_g_fork") == 0

    def test_a_trap(self):
        with pytest.raises(EmulationError, match="the kernel trapped"):
            one("s_trap 2\ns_endpgm")

    def test_a_register_past_the_allocation(self):
        with pytest.raises(EmulationError, match="past the kernel's allocation"):
            one("v_mov_b32_e32 v200, 0\ns_endpgm")


def test_unwritten_registers_are_poison():
    body = """
  v_mov_b32_e32 v3, s40
  v_add_u32_e32 v4, v50, v3
  v_sub_u32_e32 v4, v4, v3
  global_store_dword v1, v4, s[4:5]
  s_endpgm
"""
    _, out = one(body, threads=64)
    np.testing.assert_array_equal(out, 0x7FF97FF9)
    poison = np.array([0x7FF97FF9], np.uint32)
    assert np.isnan(poison.view(np.float32)).all()
    assert np.isnan(poison.view(np.float16)).all()
    assert np.isnan((poison.view(np.uint16).astype(np.uint32) << 16).view(np.float32)).all()

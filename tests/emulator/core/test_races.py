"""LDS races: two waves, the accesses ordered or not ordered by waits and barriers."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, Report, run
from rocke_cupy.emulator.assemble import assemble_kernel

MEMORIES = ("eager", "lazy")
SCHEDULES = ("lockstep", "to_barrier", "random")

# s8 is the wave; v1 a lane's place in LDS; each wave then runs its own part.
START = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshrrev_b32_e32 v2, 6, v0
  v_and_b32_e32 v1, 63, v0
  v_lshlrev_b32_e32 v1, 2, v1
  s_mov_b32 m0, 0
  s_waitcnt lgkmcnt(0)
  v_readfirstlane_b32 s8, v2
  s_cmp_eq_u32 s8, 0
  s_cbranch_scc0 other
"""
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
BARRIER = "s_barrier\n"
WRITE = "ds_write_b32 v1, v0\n"
READ = "ds_read_b32 v3, v1\n"
DMA = "global_load_lds_dword v1, s[4:5]\n"
ATOMIC = "ds_add_u32 v1, v0\n"
# The same instruction twice, to the same place.
DMA_TWICE = """
  s_mov_b32 s9, 0
again:
  global_load_lds_dword v1, s[4:5]
  s_addk_i32 s9, 0x1
  s_cmp_lt_u32 s9, 2
  s_cbranch_scc1 again
"""
TWO_HALVES = "ds_write_b16 v1, v0\nds_write_b16 v1, v0 offset:2\n"
READ_LOW, READ_HIGH = "ds_read_u16 v3, v1\n", "ds_read_u16 v3, v1 offset:2\n"
WRITE_LOW, WRITE_HIGH = "ds_write_b16 v1, v0\n", "ds_write_b16 v1, v0 offset:2\n"
FLAT = """
  s_mov_b64 s[10:11], src_shared_base
  v_mov_b32_e32 v4, v1
  v_mov_b32_e32 v5, s11
"""
FLAT_STORE, FLAT_LOAD = "flat_store_dword v[4:5], v0\n", "flat_load_dword v3, v[4:5]\n"
FLAT_ADD = "flat_atomic_add v[4:5], v0\n"
FLAT_WRITE = f"{FLAT}{FLAT_STORE}s_waitcnt vmcnt(0) lgkmcnt(0)\n"
EQUAL = "v_mov_b32_e32 v0, 0x00050009\nv_mov_b32_e32 v3, 5\n"  # instead of the thread's number


def launch(first: str, second: str, **options) -> Report:
    """Run `first` in wave 0 and `second` in wave 1."""
    body = f"{START}{first}{WAIT}s_endpgm\nother:\n{second}{WAIT}s_endpgm"
    code = assemble_kernel("k", body, lds_size=1024)
    return run(code, "k", (1,), (128,), [np.arange(256, dtype=np.uint32)], **options)


CLEAN = {
    "write, then a barrier, then a read": (WRITE + WAIT + BARRIER, BARRIER + READ),
    "read, then a barrier, then a write": (READ + WAIT + BARRIER, BARRIER + WRITE),
    "two reads": (READ, READ),
    "two atomics": (ATOMIC, ATOMIC),
    "several atomics": (ATOMIC + "ds_max_u32 v1, v0\n" + ATOMIC, "ds_or_b32 v1, v0\n" + ATOMIC),
    "a write, then a barrier, then atomics": (WRITE + WAIT + BARRIER + ATOMIC, BARRIER + ATOMIC),
    "DMA twice, both waited for": (DMA_TWICE + WAIT + BARRIER, BARRIER + READ),
    "read, wait, DMA": (READ + WAIT + DMA, ""),
    "DMA waited for before the barrier": (DMA + WAIT + BARRIER, BARRIER + READ),
    "DMA across a barrier, waited for before the next": (
        DMA + BARRIER + WAIT + BARRIER,
        BARRIER + BARRIER + READ,
    ),
    "halves of one dword": ("ds_write_b16 v1, v0\n", "ds_write_b16 v1, v0 offset:2\n"),
    "read and write of other halves": ("ds_write_b16 v1, v0\n", "ds_read_u16 v3, v1 offset:2\n"),
    "reads of other halves, then a write": (READ_LOW + WAIT + WRITE_LOW, READ_HIGH),
    "other bytes of one dword, each written and read": (
        "ds_write_b8 v1, v0 offset:1\nds_read_u8 v3, v1 offset:1\n",
        "ds_write_b8 v1, v0 offset:2\nds_read_u8 v3, v1 offset:2\nds_write_b8 v1, v0\n",
    ),
    "flat writes and reads of other dwords": (
        FLAT + FLAT_STORE,
        FLAT + FLAT_STORE.replace("v0", "v0 offset:256"),
    ),
    "flat, then a barrier, then flat": (
        FLAT + FLAT_STORE + WAIT + BARRIER,
        FLAT + BARRIER + FLAT_LOAD,
    ),
    "flat, with a wait for LDS only": (
        FLAT + FLAT_STORE + "s_waitcnt lgkmcnt(0)\n" + BARRIER,
        FLAT + BARRIER + READ,
    ),
    "flat atomics": (FLAT + FLAT_ADD, FLAT + FLAT_ADD),
    "a flat atomic and one of LDS": (FLAT + FLAT_ADD, ATOMIC),
    "flat writes of the same values": (EQUAL + FLAT + FLAT_STORE, EQUAL + FLAT + FLAT_STORE),
    "a flat write of the same values": (EQUAL + FLAT + FLAT_STORE, EQUAL + WRITE),
    "the same halves, flat": (
        EQUAL + FLAT + "flat_store_short_d16_hi v[4:5], v0\n",
        EQUAL + "ds_write_b16 v1, v3\n",
    ),
    "other dwords": (WRITE, "ds_write_b32 v1, v0 offset:256\n"),
    "a barrier between two writes": (WRITE + WAIT + BARRIER, BARRIER + WRITE),
    "the same values, written twice": (EQUAL + WRITE, EQUAL + WRITE),
    "the same values, with a wait": (EQUAL + WRITE + WAIT, EQUAL + WRITE + WAIT),
    "the same halves": (EQUAL + "ds_write_b16_d16_hi v1, v0\n", EQUAL + "ds_write_b16 v1, v3\n"),
    "own accesses need no barrier": (WRITE + READ + WAIT + WRITE + BARRIER, BARRIER),
}

RACES = {
    "write and read": (WRITE, READ),
    "write and write": (WRITE, WRITE),
    "one value differs": (EQUAL + "v_writelane_b32 v0, s8, 7\n" + WRITE, EQUAL + WRITE),
    "the same values, one by DMA": (EQUAL + WRITE, DMA),
    "a write not waited for at the barrier": (WRITE + BARRIER, BARRIER + READ),
    "a read not waited for at the barrier": (READ + BARRIER, BARRIER + WRITE),
    "DMA not waited for at the barrier": (DMA + BARRIER, BARRIER + READ),
    "DMA over what is being read": (READ + BARRIER, BARRIER + DMA),
    "DMA and write": (DMA, WRITE),
    "same half of one dword": ("ds_write_b16 v1, v0\n", "ds_read_u16 v3, v1\n"),
    "a half that another wave wrote, beside its own": (
        WRITE_LOW,
        WRITE_HIGH + READ_LOW,
    ),
    "a half that another wave wrote over, beside its own": (
        WRITE_LOW,
        WRITE_HIGH + WRITE_LOW,
    ),
    "a byte that another wave reads, beside its own": (
        "ds_read_u8 v3, v1\n",
        "ds_read_u8 v3, v1 offset:3\n" + WAIT + "ds_write_b8 v1, v0\n",
    ),
    "DMA and a half": (DMA, "ds_write_b16 v1, v0 offset:2\n"),
    "own DMA in flight beside a byte": ("ds_write_b8 v1, v0\n" + WAIT + DMA + READ_HIGH, ""),
    "flat write and read": (FLAT + FLAT_STORE, FLAT + FLAT_LOAD),
    "flat write and LDS read": (FLAT + FLAT_STORE, READ),
    "LDS write and flat read": (WRITE, FLAT + FLAT_LOAD),
    "flat write and write": (FLAT + FLAT_STORE, FLAT + FLAT_STORE),
    "flat write over DMA": (DMA, FLAT + FLAT_STORE),
    "a flat atomic and a read": (FLAT + FLAT_ADD, READ),
    "a flat read not waited for at the barrier": (
        FLAT + FLAT_LOAD + BARRIER,
        FLAT + BARRIER + WRITE,
    ),
    "a flat write not waited for at the barrier": (
        FLAT + FLAT_STORE + BARRIER,
        FLAT + BARRIER + READ,
    ),
    "flat, with a wait for memory only": (
        FLAT + FLAT_STORE + "s_waitcnt vmcnt(0)\n" + BARRIER,
        FLAT + BARRIER + READ,
    ),
    "flat halves that differ": (
        EQUAL + FLAT + "flat_store_short v[4:5], v0\n",
        EQUAL + "ds_write_b16 v1, v3\n",
    ),
    "part of a wide write": ("ds_write_b64 v1, v[0:1]\n", "ds_read_b32 v3, v1 offset:4\n"),
    "an atomic and a read": (ATOMIC, READ),
    "an atomic and a write": (ATOMIC, WRITE),
    "a write, an atomic, and the other's atomic": (WRITE + ATOMIC, ATOMIC),
    "a read, an atomic, and the other's atomic": (READ + ATOMIC, ATOMIC),
    "an atomic not waited for at the barrier": (ATOMIC + BARRIER, BARRIER + READ),
    "DMA twice, one waited for": (
        DMA_TWICE + "s_waitcnt vmcnt(1)\n" + BARRIER,
        BARRIER + READ,
    ),
    "own DMA over what is being read": (READ + DMA, ""),
    "own DMA over what is being written": (WRITE + DMA, ""),
    "own DMA over part of a read": ("ds_read_b64 v[4:5], v1 offset:244\n" + DMA, ""),
    "the barrier on the wrong side of the read": (WRITE + WAIT + BARRIER, READ + BARRIER),
    "own read of DMA in flight": (DMA + READ, ""),
    "own write over DMA in flight": (DMA + WRITE, ""),
}


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("schedule", SCHEDULES)
class TestEveryOrderOfExecution:
    @pytest.mark.parametrize("name", CLEAN)
    def test_ordered(self, name, memory, schedule):
        assert launch(*CLEAN[name], memory=memory, schedule=schedule).races == []

    @pytest.mark.parametrize("name", RACES)
    def test_not_ordered(self, name, memory, schedule):
        with pytest.raises(EmulationError, match="LDS race") as caught:
            launch(*RACES[name], memory=memory, schedule=schedule)
        assert caught.value.kind == "race"

    def test_two_dma_of_one_wave_land_in_order(self, memory, schedule):
        assert launch(DMA + DMA, "", memory=memory, schedule=schedule).races == []


def test_both_instructions_waves_and_the_address_are_named():
    with pytest.raises(EmulationError) as caught:
        launch("ds_write_b32 v1, v0 offset:512\n", "ds_read_b32 v3, v1 offset:512\n")
    error = caught.value
    text = str(error)
    assert "ds_write_b32 v1, v0 offset:512" in text
    assert "ds_read_b32 v3, v1 offset:512" in text
    assert "LDS address 512" in text
    assert {error.wave, int(text.split("with wave ")[1][0])} == {0, 1}


def test_collected_races_are_counted_by_pair():
    report = launch(WRITE, READ, races="collect", schedule="to_barrier")
    (race,) = report.races
    assert race.count == 64
    assert race.waves == (1, 0)
    assert "races\n            64  waves 1 and 0, LDS address 0, workgroup 0" in str(report)


def test_no_check_no_race():
    assert launch(WRITE, READ, races=False).races == []


@pytest.mark.parametrize("memory", MEMORIES)
def test_reads_of_what_nobody_wrote_are_listed(memory):
    report = launch(READ, "", memory=memory)
    assert report.unwritten_reads.sum() == 64
    assert "reads of LDS that nothing had written" in str(report)
    assert launch(WRITE + READ, "", memory=memory).unwritten_reads.sum() == 0


class TestUnwrittenReads:
    @pytest.mark.parametrize("memory", MEMORIES)
    def test_they_may_be_an_error(self, memory):
        with pytest.raises(EmulationError) as caught:
            launch(READ, "", memory=memory, written_lds=True)
        assert caught.value.kind == "unwritten"
        assert "nothing has written, at LDS address 0" in str(caught.value)
        assert READ.strip() in str(caught.value)

    @pytest.mark.parametrize(
        "write",
        [WRITE, WRITE + ATOMIC, DMA + WAIT, TWO_HALVES, FLAT_WRITE],
        ids=["write", "atomic", "DMA", "two halves", "flat"],
    )
    def test_whatever_writes_all_bytes_is_enough(self, write):
        report = launch(write + READ, "", written_lds=True)
        assert report.unwritten_reads.sum() == 0

    @pytest.mark.parametrize(
        ("write", "read", "address"),
        [
            ("ds_write_b16 v1, v0\n", READ, 0),
            ("ds_write_b16 v1, v0 offset:2\n", "ds_read_u16 v3, v1\n", 0),
            (WRITE, "ds_read_b64 v[4:5], v1\n", 256),
            ("", ATOMIC, 0),
        ],
    )
    def test_each_byte_counts(self, write, read, address):
        with pytest.raises(EmulationError, match=rf"at LDS address {address}\n"):
            launch(write + read, "", written_lds=True)

    def test_writes_of_an_earlier_workgroup_do_not_count(self):
        body = f"{START}s_cmp_eq_u32 s2, 0\ns_cbranch_scc0 other\n{WRITE}{WAIT}other:\n{READ}{WAIT}"
        code = assemble_kernel("k", body + "s_endpgm", lds_size=1024)
        with pytest.raises(EmulationError, match="nothing has written") as caught:
            run(code, "k", (2,), (64,), [np.zeros(64, np.uint32)], written_lds=True, threads=1)
        assert caught.value.workgroup == 1

    def test_it_needs_the_checks(self):
        with pytest.raises(ValueError, match="written_lds=True needs the race checks"):
            launch(READ, "", races=False, written_lds=True)


# All lanes of a wave, or some, write to one place; v4 is 8 in all of them.
ONE_PLACE = "v_mov_b32_e32 v4, 8\n"
PAIRS = "v_lshrrev_b32_e32 v4, 1, v1\nv_and_b32_e32 v4, -4, v4\n"
OVERLAP = {
    "one place": (ONE_PLACE + "ds_write_b32 v4, v0\n", "lanes 0 and 1", 8),
    "a byte": (ONE_PLACE + "ds_write_b8 v4, v0 offset:3\n", "lanes 0 and 1", 11),
    "wide writes half over each other": ("ds_write_b64 v1, v[0:1]\n", "lanes 0 and 1", 4),
    "pairs of lanes": (PAIRS + "ds_write_b32 v4, v0\n", "lanes 0 and 1", 0),
    "two addresses": (
        "ds_write2_b32 v1, v0, v1 offset1:1\n",
        "lanes 1 and 0",
        4,
    ),
}
AGREE = {
    "the same value": ONE_PLACE + "ds_write_b32 v4, v4\n",
    "lane 5 alone": ONE_PLACE + "s_mov_b64 exec, 32\nds_write_b32 v4, v0\ns_mov_b64 exec, -1\n",
    "the same high half": ONE_PLACE + "ds_write_b16_d16_hi v4, v0\n",
    "the same low byte": ONE_PLACE + "v_lshlrev_b32_e32 v5, 8, v0\nds_write_b8 v4, v5\n",
    "halves of a dword": "v_lshrrev_b32_e32 v4, 1, v1\nds_write_b16 v4, v0\n",
    "an atomic": ONE_PLACE + "ds_write_b32 v4, v4\nds_add_u32 v4, v0\n",
    "twice the same place": WRITE + "v_mov_b32_e32 v5, 7\nds_write_b32 v1, v5\n",
}


@pytest.mark.parametrize("memory", MEMORIES)
class TestLanesOfOneWrite:
    @pytest.mark.parametrize("name", OVERLAP)
    def test_they_must_agree(self, name, memory):
        text, lanes, address = OVERLAP[name]
        with pytest.raises(EmulationError) as caught:
            launch(text, "", memory=memory)
        message = f"LDS race: {lanes} write different values at LDS address {address}\n"
        assert message in str(caught.value)
        assert text.strip().rpartition("\n")[2] in str(caught.value)
        assert caught.value.kind == "race"

    @pytest.mark.parametrize("name", AGREE)
    def test_no_false_alarm(self, name, memory):
        launch(AGREE[name], "", memory=memory)

    def test_they_are_collected(self, memory):
        report = launch(OVERLAP["pairs of lanes"][0], "", memory=memory, races="collect")
        (race,) = report.races
        assert race.waves == (0, 0)
        assert race.first == race.second


def test_epochs_survive_very_many_barriers():
    loop = """
  s_mov_b32 s9, 0
loop{n}:
  s_barrier
  s_addk_i32 s9, 0x1
  s_cmp_lt_u32 s9, 0xeb00
  s_cbranch_scc1 loop{n}
"""
    report = launch(loop.format(n=0) + WRITE + WAIT + BARRIER, loop.format(n=1) + BARRIER + READ)
    assert report.races == []
    with pytest.raises(EmulationError, match="LDS race"):
        launch(loop.format(n=0) + WRITE, loop.format(n=1) + READ)

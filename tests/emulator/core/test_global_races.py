"""Races in global memory: between waves, between workgroups, and what orders their accesses."""

import functools
from typing import ClassVar

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, hiprtc, run
from rocke_cupy.emulator.assemble import assemble_kernel

ROCM = ("7.0", "7.14")
HEAD = """
#define RELAXED __ATOMIC_RELAXED
#define AGENT __HIP_MEMORY_SCOPE_AGENT
#define WORKGROUP __HIP_MEMORY_SCOPE_WORKGROUP
extern "C" __global__ __launch_bounds__(256) void k(int* data, int* flag, int* out) {
  int t = threadIdx.x, b = blockIdx.x, n = blockDim.x;
"""


@functools.cache
def compiled(body, rocm):
    """Return the code object of the body of a kernel."""
    source = f"{HEAD}{body}\n}}"
    return hiprtc.compile(source, ["-gline-tables-only"], rocm=rocm, name="k.hip").code


def launch(body, rocm="7.0", *, grid=4, block=256, **options):
    """Run the body of a kernel; return its three arrays and the report."""
    code = compiled(body, rocm)
    arrays = [np.zeros(4096, np.int32) for _ in range(3)]
    arrays[0][:] = np.arange(4096) % 7
    report = run(code, "k", (grid,), (block,), arrays, **options)
    return *arrays, report


def race(body, *arguments, **options):
    """Return the global race in the body of a kernel."""
    with pytest.raises(EmulationError, match="global race") as caught:
        launch(body, *arguments, **options)
    assert caught.value.kind == "global_race"
    return caught.value


LAST_BLOCK = """
  out[b * n + t] = data[b * n + t] + 1;
  {release}
  __syncthreads();
  __shared__ bool last;
  if (t == 0) {{ {first} last = {change} == gridDim.x - 1; }}
  __syncthreads();
  if (last) {{
    {acquire}
    int sum = 0;
    for (unsigned k = 0; k < gridDim.x; k++) sum += out[k * n + t];
    data[t] = sum;
  }}
"""
FENCES = dict(
    release="__threadfence();", acquire="__threadfence();", first="", change="atomicAdd(flag, 1)"
)

CLEAN = {
    "each its own": "out[b * n + t] = data[b * n + t];",
    "all read one": "out[b * n + t] = data[0] + data[t];",
    "atomics": "atomicAdd(&out[t % 3], t); atomicMax(&out[5], b); atomicExch(&out[6], t);",
    "a loop of compare and swap that begins with a plain read": """
      int old = out[0], seen;
      do { seen = old; old = atomicCAS(&out[0], seen, seen + 1); } while (old != seen);""",
    "the same value": "flag[0] = 1; if (data[t] == 3) flag[1] = 5; out[b * n + t] = t;",
    "what is there": "data[t] = t % 7;",
    "neighbouring bytes": """
      char* bytes = (char*)out; bytes[(t * 4 + b) % 1024] = b;
      short* halves = (short*)flag; halves[b + t * 4] = t;""",
    "a barrier": """
      out[b * n + t] = t; __syncthreads(); int x = out[b * n + 255 - t];
      __syncthreads(); out[b * n + t] = x;""",
    "in place behind a barrier": """
      int x = data[b * n + 255 - t] + data[b * n + t]; __syncthreads(); data[b * n + t] = x;""",
    "read again, then written": """
      int x = data[b * n]; __syncthreads();
      if (t == 64) { x += data[b * n]; data[b * n] = x; } out[b * n + t] = x;""",
    "the last block": LAST_BLOCK.format(**FENCES),
    "the last block, fences in one thread": LAST_BLOCK.format(**{
        **FENCES, "release": "", "first": "__threadfence();"}),
    "the last block, by one atomic": LAST_BLOCK.format(**{
        **FENCES, "release": "", "acquire": "",
        "change": "__hip_atomic_fetch_add(flag, 1, __ATOMIC_ACQ_REL, AGENT)"}),
    "the last block, stores and loads past the caches": LAST_BLOCK.format(**FENCES).replace(
        "out[", "((volatile int*)out)["),
    "a chain of blocks": """
      if (t == 0) {
        int before = 0;
        if (b) {
          while (__hip_atomic_load(&flag[b - 1], __ATOMIC_ACQUIRE, AGENT) == 0) {}
          before = out[b - 1];
        }
        out[b] = before + data[b];
        __hip_atomic_store(&flag[b], 1, __ATOMIC_RELEASE, AGENT);
      }""",
    "a chain of blocks, read by all behind a barrier": """
      if (t == 0 && b)
        while (__hip_atomic_load(&flag[b - 1], __ATOMIC_ACQUIRE, AGENT) == 0) {}
      __syncthreads();
      int before = b ? out[(b - 1) * n + 255 - t] : 0;
      out[b * n + t] = before + 1;
      __syncthreads();
      if (t == 0) __hip_atomic_store(&flag[b], 1, __ATOMIC_RELEASE, AGENT);""",
    "known through another": """
      if (t == 0) {
        if (b == 0) { out[0] = 5; __hip_atomic_store(&flag[0], 1, __ATOMIC_RELEASE, AGENT); }
        if (b == 1 && __hip_atomic_load(&flag[0], __ATOMIC_ACQUIRE, AGENT))
          __hip_atomic_store(&flag[1], 1, __ATOMIC_RELEASE, AGENT);
        if (b == 3 && __hip_atomic_load(&flag[1], __ATOMIC_ACQUIRE, AGENT)) out[1] = out[0];
      }""",
    "waves by an atomic of the workgroup": """
      if (t == 0) { out[b] = 3; __hip_atomic_store(&flag[b], 1, __ATOMIC_RELEASE, WORKGROUP); }
      if (t == 64) {
        while (!__hip_atomic_load(&flag[b], __ATOMIC_ACQUIRE, WORKGROUP)) {}
        data[4000 + b] = out[b];
      }""",
    "waves by an atomic in LDS": """
      __shared__ int ready;
      if (t == 0) ready = 0;
      __syncthreads();
      if (t == 0) { out[b] = 3; atomicAdd(&ready, 1); }
      if (t == 64) { while (!atomicMax(&ready, -1 - b)) {} data[4000 + b] = out[b]; }""",
}  # fmt: skip

# The body, and words of the message.
RACES = {
    "two workgroups on one cell": ("if (t == 0) out[0] = b;", "over what was written by"),
    "an atomic is missing": ("if (t == 0) out[0] += data[t] + 1;", "workgroup"),
    "two waves on one cell": ("if (t % 64 == 0) out[b] = t;", "no barrier in between"),
    "a barrier is missing": ("out[b * n + t] = t; flag[b * n + t] = out[b * n + 255 - t];",
                             "no barrier in between"),
    "a barrier is missing before the write": (
        "int x = data[b * n + 255 - t]; data[b * n + t] = x + 1;", "no barrier in between"),
    "a barrier does not order workgroups": (
        "out[b * n + t] = t; __syncthreads(); flag[b * n + t] = out[(b + 3) % 4 * n + t];",
        "no release and acquire"),
    "written over what others read": (
        "int x = data[5]; __syncthreads(); if (!t && b == 3) data[5] = x + 1; out[b * n + t] = x;",
        "is read by"),
    "written over what all read": (
        "int x = data[5]; __syncthreads(); if (t == 7) data[5] = b + x + 1;",
        "workgroup",
    ),
    "neighbouring bytes, one of them shared": (
        "char* bytes = (char*)out; if (t < 4 && t != b) bytes[t] = b + 1;", "workgroup"),
    "the last block without a release": (
        LAST_BLOCK.format(**{**FENCES, "release": ""}), "no release and acquire"),
    "the last block without an acquire": (
        LAST_BLOCK.format(**{**FENCES, "acquire": ""}), "buffer_inv sc1"),
    "a plain counter": (
        LAST_BLOCK.format(**{**FENCES, "change": "flag[0]++"}), "workgroup"),
    "a relaxed chain": (
        """if (t == 0) {
             if (b && __hip_atomic_load(&flag[b - 1], RELAXED, AGENT)) data[b] = out[b - 1];
             out[b] = b + 1;
             __hip_atomic_store(&flag[b], 1, RELAXED, AGENT);
           }""", "no release and acquire"),
    "an atomic of the workgroup does not reach others": (
        """if (t == 0) {
             int ready = b && __hip_atomic_load(&flag[b - 1], __ATOMIC_ACQUIRE, WORKGROUP);
             if (ready) data[b] = out[b - 1];
             out[b] = b + 1;
             __hip_atomic_store(&flag[b], 1, __ATOMIC_RELEASE, WORKGROUP);
           }""", "workgroup 0"),
    "data written after the release": (
        """if (t == 0) {
             int ready = b && __hip_atomic_load(&flag[b - 1], __ATOMIC_ACQUIRE, AGENT);
             if (ready) data[b] = out[b - 1];
             __hip_atomic_store(&flag[b], 1, __ATOMIC_RELEASE, AGENT);
             out[b] = b + 1;
           }""", "no release and acquire"),
}  # fmt: skip

WAYS = (
    dict(memory="lazy", threads=1),
    dict(memory="eager"),
    dict(schedule="to_barrier"),
    dict(memory="eager", schedule="to_barrier", threads=1),
)


@pytest.mark.parametrize("rocm", ROCM)
class TestHip:
    @pytest.mark.parametrize("name", CLEAN)
    def test_ordered(self, name, rocm):
        for options in WAYS if "waves by" not in name else WAYS[:2]:  # one waits for the other
            launch(CLEAN[name], rocm, **options)

    @pytest.mark.parametrize("name", RACES)
    def test_not_ordered(self, name, rocm):
        body, words = RACES[name]
        for options in WAYS:
            assert words in str(race(body, rocm, **options))


def test_what_is_reported():
    error = race("\n\n  if (t == 0) out[3] = b;", threads=1)
    first, place, here, there = str(error).splitlines()
    assert first == (
        "global race: write over what was written by wave 0 of workgroup 0, no release and acquire "
        "by atomics in between, at offset 12 of buffer args[2]"
    )
    assert place == "  in kernel k, workgroup 1, wave 0, lane 0"
    assert "(k.hip:9)" in here
    assert there.startswith("  with k+0x")
    assert (error.workgroup, error.wave, error.lane) == (1, 0, 0)


def test_races_can_be_collected_or_ignored():
    body = "if (t == 0) out[3] = b;"
    report = launch(body, races="collect", threads=1)[3]
    (found,) = report.races
    assert found.count == 3
    assert found.place == "at offset 12 of buffer args[2]"
    assert "at offset 12 of buffer args[2], workgroup 1" in str(report)
    assert launch(body, races=False)[3].races == []


def test_results_are_those_without_checks():
    for name in CLEAN:
        if "waves by" not in name:
            for one, other in zip(
                launch(CLEAN[name], threads=1), launch(CLEAN[name], races=False), strict=True
            ):
                assert not isinstance(one, np.ndarray) or np.array_equal(one, other)


class TestCacheBits:
    """What LLVM's memory model for gfx942 asks of writer and reader, and one thing missing."""

    WRITE, WAIT, BACK = "global_store_dword v0, v1, s[4:5]", "s_waitcnt vmcnt(0)", "buffer_wbl2 sc1"
    SET, CHANGE = "global_store_dword v2, v1, s[4:5] sc1", "global_atomic_add v2, v1, s[4:5]"
    LOOK, INVALIDATE = "global_load_dword v3, v2, s[4:5] sc1", "buffer_inv sc1"
    READ = "global_load_dword v4, v0, s[4:5]"

    LOW_WRITE, HIGH_WRITE = (f"global_store_short v2, v1, s[4:5] offset:{k}" for k in (0, 2))
    LOW_READ, HIGH_READ = (f"global_load_ushort v3, v2, s[4:5] offset:{k}" for k in (0, 2))

    RELEASE = (WRITE, BACK, WAIT, SET)
    ACQUIRE = (LOOK, WAIT, INVALIDATE, READ)
    CLEAN = (
        (RELEASE, ACQUIRE),
        ((WRITE, WAIT, BACK, SET), ACQUIRE),  # nothing is outstanding at the write back
        ((WRITE, BACK, WAIT, CHANGE), ACQUIRE),
        ((WRITE, "buffer_wbl2 sc0 sc1", WAIT, SET), (LOOK, WAIT, "buffer_inv sc0 sc1", READ)),
        (RELEASE, ("global_atomic_or v3, v2, v5, s[4:5] sc0", WAIT, INVALIDATE, READ)),
        (RELEASE, (LOOK, WAIT, f"{READ} sc1")),
        (RELEASE, (LOOK, WAIT, f"{READ} sc0 sc1")),
        ((f"{WRITE} sc1", WAIT, SET), ACQUIRE),
        ((f"{WRITE} sc0 sc1 nt", WAIT, SET), (LOOK, WAIT, f"{READ} sc1")),
        (("global_atomic_swap v0, v1, s[4:5]",), (f"{READ} sc1",)),
        ((CHANGE, CHANGE, *RELEASE), (CHANGE, *ACQUIRE)),
        (RELEASE, (LOOK, WAIT, INVALIDATE, "global_store_dword v0, v2, s[4:5]")),
        # Each its own half of a dword.
        ((LOW_READ, WAIT), (HIGH_READ, WAIT, HIGH_WRITE)),
        ((LOW_WRITE,), (HIGH_WRITE, WAIT, HIGH_READ)),
        # A second store is on its way, which the reader does not read.
        ((WRITE, BACK, WAIT, f"{WRITE} offset:512", BACK, SET), ACQUIRE),
        (
            RELEASE,
            (LOOK, WAIT, INVALIDATE, "v_readfirstlane_b32 s6, v3", "s_load_dword s7, s[4:5], 0x0"),
        ),
    )
    RACES: ClassVar = {
        "no write back": ((WRITE, WAIT, SET), ACQUIRE, "no release and acquire"),
        "a write back for the workgroup": (
            (WRITE, "buffer_wbl2 sc0", WAIT, SET), ACQUIRE, "no release and acquire"),
        "no wait for the store": ((WRITE, BACK, SET), ACQUIRE, "no release and acquire"),
        "written behind the write back": (
            (BACK, WRITE, WAIT, SET), ACQUIRE, "no release and acquire"),
        "no wait for a store past the caches": (
            (f"{WRITE} sc1", SET), ACQUIRE, "no release and acquire"),
        "a store past the caches, of the workgroup": (
            (f"{WRITE} sc0", WAIT, SET), ACQUIRE, "no release and acquire"),
        "a plain store that says ready": (
            (WRITE, BACK, WAIT, "global_store_dword v2, v1, s[4:5]"), ACQUIRE, "workgroup 0"),
        "no invalidation": (RELEASE, (LOOK, WAIT, READ), "no buffer_inv sc1 since"),
        "an invalidation for the workgroup": (
            RELEASE, (LOOK, WAIT, "buffer_inv sc0", READ), "no buffer_inv sc1 since"),
        "an invalidation before the wait": (
            RELEASE, (LOOK, INVALIDATE, WAIT, READ), "no buffer_inv sc1 since"),
        "a read of the workgroup": (
            RELEASE, (LOOK, WAIT, f"{READ} sc0"), "no buffer_inv sc1 since"),
        "a plain look": (
            RELEASE, ("global_load_dword v3, v2, s[4:5]", WAIT, INVALIDATE, READ), "workgroup 0"),
        "read before the look": (RELEASE, (READ, *ACQUIRE), "no release and acquire"),
        "read by a scalar load": (
            RELEASE, ("s_load_dword s7, s[4:5], 0x0",), "no release and acquire"),
        "by buffer instructions": (
            ("buffer_store_dword v1, v0, s[4:7], 0 offen", WAIT, SET),
            ("buffer_load_dword v4, v0, s[4:7], 0 offen", WAIT), "no release and acquire"),
        "by LDS DMA": (
            (WRITE, WAIT), ("global_load_lds_dword v0, s[4:5]", WAIT), "no release and acquire"),
        "a half that another wrote, beside its own": (
            (LOW_WRITE, WAIT),
            (HIGH_WRITE, WAIT, LOW_READ),
            "no release and acquire",
        ),
        "what is read amid a dword": (
            ("global_load_dwordx2 v[10:11], v2, s[4:5] offset:2", WAIT),
            ("global_store_short v2, v1, s[4:5] offset:4", WAIT),
            "is read by",
        ),
        "by flat instructions": (
            ("flat_store_dword v[8:9], v1", WAIT), ("flat_load_dword v4, v[8:9]", WAIT),
            "no release and acquire"),
    }  # fmt: skip

    def launch(self, first, second):
        """Run one part in workgroup 0 and the other in workgroup 1, with a lane each."""
        parts = ["\n".join([*part, "s_waitcnt vmcnt(0) lgkmcnt(0)", "s_endpgm"]) for part in
                 (first, second)]  # fmt: skip
        body = f"""
          s_load_dwordx2 s[4:5], s[0:1], 0x0
          s_mov_b32 s6, 4096
          s_mov_b32 s7, 0x20000
          s_mov_b64 exec, 1
          v_mov_b32_e32 v0, 0
          v_mov_b32_e32 v1, 7
          v_mov_b32_e32 v2, 64
          v_mov_b32_e32 v5, 0
          s_mov_b32 m0, 0
          s_waitcnt lgkmcnt(0)
          v_mov_b32_e32 v8, s4
          v_mov_b32_e32 v9, s5
          s_nop 4
          s_cmp_eq_u32 s2, 0
          s_cbranch_scc0 .Lsecond
          {parts[0]}
        .Lsecond:
          {parts[1]}
        """
        code = assemble_kernel("k", body, lds_size=1024)
        return run(code, "k", (2,), (64,), [np.zeros(1024, np.uint32)], threads=1)

    @pytest.mark.parametrize(("first", "second"), CLEAN)
    def test_ordered(self, first, second):
        assert self.launch(first, second).races == []

    @pytest.mark.parametrize("name", RACES)
    def test_not_ordered(self, name):
        first, second, words = self.RACES[name]
        with pytest.raises(EmulationError, match=f"global race: .*{words}") as caught:
            self.launch(first, second)
        assert caught.value.workgroup == 1

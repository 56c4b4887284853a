"""The rules of the timing model, on kernels of a few instructions that are written down."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from rocke_cupy.emulator import hiprtc, run, timing
from rocke_cupy.emulator.timing import constants, phases

pytestmark = pytest.mark.network

KERNEL = r"""
extern "C" __global__ __launch_bounds__(512) void NAME(float* out, int turns) {
  int lane = threadIdx.x % 64;
  unsigned start = (unsigned)(__attribute__((address_space(3))) char*)memory;
  memory[threadIdx.x] = lane;
  unsigned narrow = start + lane * 4, wide = start + lane * 16, clash = start + lane * 256;
  const float* line = out + lane * 4;
  __syncthreads();
  for (int i = 0; i < turns; i++)
    asm volatile("BODY" : "+v"(narrow), "+v"(wide), "+v"(clash), "+v"(line) : : CLOBBERED);
  out[threadIdx.x] = memory[lane];
}
"""
HEADER = "static __shared__ float memory[4096];\n"
CLOBBERED = ", ".join(f'"v{k}"' for k in range(40, 128))

MFMA = "v_mfma_f32_32x32x16_bf16 v[48:63], v[40:43], v[44:47], v[48:63]"
OTHER_MFMA = "v_mfma_f32_32x32x16_bf16 v[64:79], v[40:43], v[44:47], v[64:79]"
SMALL_MFMA = "v_mfma_f32_16x16x32_bf16 v[48:51], v[40:43], v[44:47], v[48:51]"
ADD, OF_MFMA = "v_add_f32 v80, v80, v81", "v_add_f32 v80, v48, v81"
EXP, PACKED = "v_exp_f32 v82, v82", "v_pk_add_f32 v[84:85], v[84:85], v[86:87]"
WAIT_LDS, WAIT_MEMORY = "s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)"
READ, READ_WIDE, READ_CLASH = (
    "ds_read_b32 v88, %0",
    "ds_read_b128 v[88:91], %1",
    "ds_read_b32 v88, %2",
)
LOAD = "global_load_dwordx4 v[88:91], %3, off"

# Each body, and what one of it takes when it follows itself.
ONE_WAVE = {
    "add": ([ADD], 4),
    "exp": ([EXP], 8),
    "packed": ([PACKED], 4),
    "nop": (["s_nop 7"], 32),
    "scalar": (["s_mov_b32 s40, 0"], 4),
    "small": ([SMALL_MFMA], 16),
    "mfma": ([MFMA], 32),
    "mfma_and_6_adds": ([MFMA, *[ADD] * 6], 32),
    "mfma_and_7_adds": ([MFMA, *[ADD] * 7], 36),
    "mfma_and_3_exps": ([MFMA, *[EXP] * 3], 32),
    "mfma_and_4_exps": ([MFMA, *[EXP] * 4], 40),
    "mfma_and_packed": ([MFMA, PACKED], 36),
    "mfma_and_6_adds_and_packed": ([MFMA, *[ADD] * 6, PACKED], 36),
    # 8 passes, then three wait states until the result can be read.
    "mfma_result": ([MFMA, OF_MFMA], 32 + 12 + 4),
    "other_accumulator": ([MFMA, OTHER_MFMA], 64),
    "waits_for_lds": ([READ, WAIT_LDS], 1 + 64),
    "waits_for_clash": ([READ_CLASH, WAIT_LDS], 64 + 64),
}
# Eight waves, two a SIMD.
EIGHT_WAVES = {
    "add": ([ADD], 8),
    "mfma": ([MFMA], 64),
    "mfma_and_adds": ([MFMA, *[ADD] * 6], 64),
    "wide": ([READ_WIDE], 8 * 4),
    "clash": ([READ_CLASH], 8 * 64),
    # 1 KiB at 64 B a cycle.
    "load": ([LOAD], 8 * 16),
}
SHORT, LONG = 8, 24
ALL_OF_LDS = 140 * 1024  # so that one workgroup has the compute unit for itself


def name_of(name, waves, repeats):
    return f"{name}_{waves}_{repeats}"


@pytest.fixture(scope="module")
def code():
    kernels = [HEADER]
    for waves, bodies in ((1, ONE_WAVE), (8, EIGHT_WAVES)):
        for name, (body, _) in bodies.items():
            for repeats in (SHORT, LONG):
                kernel = KERNEL.replace("NAME", name_of(name, waves, repeats))
                kernel = kernel.replace("BODY", "\\n".join(body * repeats))
                kernels.append(kernel.replace("CLOBBERED", CLOBBERED))
    return hiprtc.compile("\n".join(kernels), ("-O3",)).code


def cycles(code, name, waves, repeats, turns=40):
    # Its kernels time what follows at once, wait states or not.
    options = dict(timing=True, memory="eager", races=False, hazards=False, shared_mem=ALL_OF_LDS)
    kernel = name_of(name, waves, repeats)
    out = np.zeros((1024,), np.float32)
    short, long = (
        run(code, kernel, (1,), (64 * waves,), [out, np.int32(n)], **options)
        for n in (turns, 2 * turns)
    )
    return short.timing.between(long.timing, turns).cycles


def cost(code, name, waves):
    """Return what one body takes, without the loop around it."""
    return (cycles(code, name, waves, LONG) - cycles(code, name, waves, SHORT)) / (LONG - SHORT)


@pytest.mark.parametrize("name", ONE_WAVE)
def test_one_wave(code, name):
    # Completion is seen at the next turn of the SIMD.
    assert cost(code, name, 1) == pytest.approx(ONE_WAVE[name][1], abs=8 if "waits" in name else 0)


@pytest.mark.parametrize("name", EIGHT_WAVES)
def test_eight_waves_share_the_units(code, name):
    assert cost(code, name, 8) == pytest.approx(EIGHT_WAVES[name][1], rel=0.02)


# ---- what waves do to one another ----

TOGETHER = r"""
extern "C" __global__ __launch_bounds__(512) void together(float* out, int priority, int extra) {
  int wave = __builtin_amdgcn_readfirstlane(threadIdx.x / 64);
  if (wave >= 4 && priority) __builtin_amdgcn_s_setprio(1);
  asm volatile(ADDS ::: "v80");
  __builtin_amdgcn_s_barrier();
  for (int i = 0; wave == 0 && i < extra; i++) asm volatile(ADDS ::: "v80");
  __builtin_amdgcn_s_barrier();
  asm volatile(ADDS ::: "v80");
  out[threadIdx.x + 512 * blockIdx.x] = 1;
}
"""
ADDS = 100


@pytest.fixture(scope="module")
def together():
    body = "\\n".join(["v_add_f32 v80, v80, v80"] * ADDS)
    return hiprtc.compile(TOGETHER.replace("ADDS", f'"{body}"'), ("-O3",)).code


def run_together(code, priority=0, extra=0, workgroups=1, **options):
    out = np.zeros((512 * workgroups,), np.float32)
    arguments = [out, np.int32(priority), np.int32(extra)]
    options = {"shared_mem": ALL_OF_LDS, **options}
    return run(code, "together", (workgroups,), (512,), arguments, timing=True, **options)


def arrival(report, wave):
    """Return the cycle in which a wave issues its first barrier."""
    trace = report.timing.traces[wave]
    names = np.array([i.mnemonic for i in report.program.instructions])[trace["pc"]]
    return int(trace["time"][np.flatnonzero(names == "s_barrier")[0]])


def test_the_wave_with_priority_goes_first(together):
    fair, favoured = (run_together(together, priority=p) for p in (0, 1))
    # Two waves share a SIMD: in turns both take twice as long, with priority only one waits.
    assert arrival(fair, 0) == pytest.approx(arrival(fair, 4), abs=40)
    assert arrival(favoured, 0) > arrival(favoured, 4) + 0.8 * 4 * ADDS


def test_waves_wait_at_a_barrier_for_the_slowest(together):
    quick, slow = (run_together(together, extra=n).timing for n in (0, 10))
    late = 10 * ADDS * 4
    assert slow.pace.cycles - quick.pace.cycles == pytest.approx(late, rel=0.1)
    # Seven of eight waves wait.
    assert slow.pace.stalls["barrier"] - quick.pace.stalls["barrier"] == pytest.approx(
        late * 7 / 8, rel=0.1
    )


def test_phases_lie_between_barriers(together):
    report = run_together(together, extra=10)
    first, other = (phases(report.program, report.timing.traces[w], 1) for w in (0, 1))
    assert first[0].mnemonics["v_add_f32_e32"] == 10 * ADDS
    # The others go on when the slow one arrives, but for what they then wait for themselves.
    assert first[0].cycles > 10 * ADDS * 4
    assert other[0].cycles + other[0].waited == pytest.approx(first[0].cycles, rel=0.05)


def test_workgroups_that_fit_share_a_compute_unit(together):
    alone = run_together(together).timing
    shared = run_together(together, shared_mem=60 * 1024).timing
    assert (alone.copies, shared.copies) == (1, 2)
    # Adds of four waves a SIMD in place of two.
    adds = 2 * ADDS * 2 * 4
    assert shared.pace.cycles - alone.pace.cycles == pytest.approx(adds, rel=0.15)


def test_each_workgroup_is_timed(together):
    timing = run_together(together, workgroups=5, threads=2).timing
    assert sorted(timing.cycles) == [0, 1, 2, 3, 4]
    assert len(set(timing.cycles.values())) <= 2
    assert set(timing.pace.busy) == {"mfma", "vector", "scalar", "lds", "memory"}
    assert timing.pace.limit == "vector"
    assert "vector issue" in str(timing.pace)


# ---- memory ----

ROWS = r"""
typedef float f4 __attribute__((ext_vector_type(4)));
extern "C" __global__ __launch_bounds__(512) void rows(const f4* x, f4* out, int n) {
  f4 sum = {0, 0, 0, 0};
  int t = threadIdx.x, row = t / 16 * 32 + t % 16;
#pragma unroll 8
  for (int j = 0; j < n; j++) sum += x[j * 1024 + row];
  out[t] = sum;
}
extern "C" __global__ __launch_bounds__(64) void scratch(int* out, int n) {
  int kept[32];
  for (int j = 0; j < n; j++) kept[j] = out[j];
  out[threadIdx.x] = kept[n / 2];
}
extern "C" __global__ __launch_bounds__(64) void flat(int* out, int n) {
  volatile int kept[32];
  for (int j = 0; j < n; j++) kept[j] = j;
  out[threadIdx.x] = kept[n / 2];
}
"""


@pytest.fixture(scope="module")
def memory():
    return hiprtc.compile(ROWS, ("-O3",)).code


def at(offset, size):
    """Return floats whose address is `offset` bytes past a multiple of 4096."""
    storage = np.zeros(size + 8192, np.uint8)
    start = -storage.ctypes.data % 4096 + offset
    return storage[start : start + size].view(np.float32)


@pytest.mark.parametrize("by_bytes", [False, True])
def test_lines_do_not_depend_on_where_numpy_put_the_arrays(memory, by_bytes):
    counts = (64, 128)
    found = set()
    for offset in (0, 16, 64, 112):
        timings = []
        for n in counts:
            x, out = at(offset, 16384 * n), at(0, 8192)
            args = [x, out, np.int32(n)]
            if by_bytes:
                args = struct.pack("<QQi", x.ctypes.data, out.ctypes.data, n)
            buffers = [x, out] if by_bytes else None
            options = {"timing": True, "buffers": buffers, "shared_mem": ALL_OF_LDS}
            timings.append(run(memory, "rows", (1,), (512,), args, **options).timing)
        found.add(timings[0].between(timings[1], counts[1] - counts[0]).cycles)
    # Eight waves, each with 4 rows of 256 bytes: 8 lines of 2 cycles.
    (cycles,) = found
    assert cycles == pytest.approx(8 * 8 * 2, rel=0.02)


@pytest.mark.parametrize("name", ["scratch", "flat"])
def test_a_dword_of_scratch_is_two_lines_for_a_wave(memory, name):
    args = [np.zeros(64, np.int32), np.int32(20)]
    report = run(memory, name, (1,), (64,), args, timing=True)
    trace = report.timing.traces[0]
    names = np.array([i.mnemonic for i in report.program.instructions])[trace["pc"]]
    touched = {str(n): int(work) for n, work in zip(names, trace["work"], strict=True) if name in n}
    assert touched
    for mnemonic, lines in touched.items():
        assert lines == (8 if mnemonic.endswith("x4") else 2), mnemonic


def test_every_constant_has_a_source():
    entries = json.loads(Path(timing.__file__).with_name("gfx950_timing.json").read_text())
    assert set(entries) == set(constants())
    for name, entry in entries.items():
        assert entry["kind"] in ("published", "measured", "derived", "estimate"), name
        assert len(entry["source"]) > 20, name

"""Planted faults in plain HIP kernels: each is reported at its line; corrected, it is clean."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, hiprtc, run

OPTIONS = ("-gline-tables-only",)
MEMORIES = ("eager", "lazy")
SCHEDULES = ("lockstep", "to_barrier", "random")

REVERSE = """
extern "C" __global__ __launch_bounds__(256) void reverse(const float* in, float* out) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    tile[t] = in[t];           // WRITE
    BARRIER
    out[t] = tile[255 - t];    // READ
}
"""

# The wait that the compiler would place itself is written by hand, so that it can be too short.
TWO_LOADS = """
extern "C" __global__ __launch_bounds__(64) void add(const float* a, const float* b, float* out) {
    float x, y;
    const float* pa = a + threadIdx.x;
    const float* pb = b + threadIdx.x;
    asm volatile("global_load_dword %0, %1, off" : "=v"(x) : "v"(pa));
    asm volatile("global_load_dword %0, %1, off" : "=v"(y) : "v"(pb));    // LOAD
    asm volatile("s_waitcnt vmcnt(COUNT)" ::: "memory");
    asm volatile("v_add_f32 %0, %1, %0" : "+v"(x) : "v"(y));    // USE
    out[threadIdx.x] = x;
}
"""

# 4 waves fill their quarter of LDS by DMA, two pieces each; the second piece is read too early.
DMA = """
#define LDS __attribute__((address_space(3)))
#define LOAD(to, from) \\
    __builtin_amdgcn_raw_ptr_buffer_load_lds(source, (LDS void*)(to), 4, lane * 4, from, 0, 0)
extern "C" __global__ __launch_bounds__(256) void copy(float* in, float* out) {
    __shared__ float tile[512];
    int wave = __builtin_amdgcn_readfirstlane(threadIdx.x / 64), lane = threadIdx.x % 64;
    __amdgpu_buffer_rsrc_t source = __builtin_amdgcn_make_buffer_rsrc(in, 0, 2048, 0x27000);
    LDS float* mine = (LDS float*)tile + wave * 128;
    LOAD(mine, wave * 512);
    LOAD(mine + 64, wave * 512 + 256);  // DMA
    asm volatile("s_waitcnt vmcnt(COUNT)" ::: "memory");
    BARRIER
    float x;
    LDS float* from = mine + 64 + lane;
    asm volatile("ds_read_b32 %0, %1" : "=v"(x) : "v"(from) : "memory");  // READ
    asm volatile("s_waitcnt lgkmcnt(0)" : "+v"(x) :: "memory");
    out[wave * 64 + lane] = x;
}
"""

SHIFTED = """
extern "C" __global__ __launch_bounds__(64) void shift(const float* in, float* out) {
    out[threadIdx.x] = in[(int)threadIdx.x + OFFSET];    // READ
}
"""

COLUMN = """
extern "C" __global__ __launch_bounds__(64) void column(const float* in, float* out) {
    __shared__ float tile[64 * PITCH];
    for (int k = 0; k < 64; k++) tile[k * PITCH + threadIdx.x] = in[k * 64 + threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 64; k++) sum += tile[threadIdx.x * PITCH + k];    // READ
    out[threadIdx.x] = sum;
}
"""


HALVED = """
extern "C" __global__ __launch_bounds__(64) void halve(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    tile[t] = 0;
    __syncthreads();
    tile[PLACE] = in[t];    // WRITE
    __syncthreads();
    out[t] = tile[t];
}
"""

AHEAD = """
extern "C" __global__ __launch_bounds__(64) void ahead(const int* in, int* out) {
    __shared__ int tile[65];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    int next = tile[t + 1];    // READ
    out[t] = USE;
}
"""

# The compiler waits for the LDS write before a barrier of its own; here the barrier is bare.
UNWAITED = """
#define LDS __attribute__((address_space(3)))
extern "C" __global__ __launch_bounds__(128) void give(const int* in, int* out) {
    __shared__ int tile[128];
    int t = threadIdx.x, x;
    LDS int *mine = (LDS int*)tile + t, *other = (LDS int*)tile + (t ^ 64);
    asm volatile("ds_write_b32 %0, %1" :: "v"(mine), "v"(in[t]) : "memory");    // WRITE
    asm volatile("WAIT\\n s_barrier" ::: "memory");
    asm volatile("ds_read_b32 %0, %1" : "=v"(x) : "v"(other) : "memory");    // READ
    asm volatile("s_waitcnt lgkmcnt(0)" : "+v"(x) :: "memory");
    out[t] = x;
}
"""


def compiled(source: str, **values: object) -> bytes:
    for name, value in values.items():
        source = source.replace(name, str(value))
    return hiprtc.compile(source, OPTIONS).code


def line_of(source: str, marker: str) -> str:
    """``kernel.hip:n`` of the line that carries a marker."""
    (number,) = (n for n, line in enumerate(source.split("\n"), 1) if f"// {marker}" in line)
    return f"kernel.hip:{number})"


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("schedule", SCHEDULES)
class TestMissingBarrier:
    def test_it_is_reported_at_both_lines(self, memory, schedule):
        data, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
        code = compiled(REVERSE, BARRIER="")
        with pytest.raises(EmulationError, match="LDS race") as caught:
            run(code, "reverse", (1,), (256,), [data, out], memory=memory, schedule=schedule)
        assert caught.value.kind == "race"
        for marker in ("WRITE", "READ"):
            assert line_of(REVERSE, marker) in str(caught.value)

    def test_the_corrected_kernel_is_clean(self, memory, schedule):
        data, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
        code = compiled(REVERSE, BARRIER="__syncthreads();")
        report = run(code, "reverse", (1,), (256,), [data, out], memory=memory, schedule=schedule)
        np.testing.assert_array_equal(out, data[::-1])
        assert report.races == []
        assert report.count("s_barrier") == 4


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("schedule", SCHEDULES)
class TestWriteThatNobodyWaitsFor:
    data = np.arange(128, dtype=np.int32)

    def test_it_is_reported_at_both_lines(self, memory, schedule):
        code = compiled(UNWAITED, WAIT="s_nop 0")
        arrays = [self.data, np.zeros(128, np.int32)]
        with pytest.raises(EmulationError, match="LDS race") as caught:
            run(code, "give", (1,), (128,), arrays, memory=memory, schedule=schedule)
        for marker in ("WRITE", "READ"):
            assert line_of(UNWAITED, marker) in str(caught.value)

    def test_the_corrected_kernel_is_clean(self, memory, schedule):
        code = compiled(UNWAITED, WAIT="s_waitcnt lgkmcnt(0)")
        out = np.zeros(128, np.int32)
        run(code, "give", (1,), (128,), [self.data, out], memory=memory, schedule=schedule)
        np.testing.assert_array_equal(out, self.data ^ 64)


@pytest.mark.parametrize("memory", MEMORIES)
class TestLanesThatMeet:
    def test_different_values_are_reported_at_their_line(self, memory):
        data, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
        with pytest.raises(EmulationError, match="lanes 0 and 1 write different values") as caught:
            run(compiled(HALVED, PLACE="t / 2"), "halve", (1,), (64,), [data, out], memory=memory)
        assert line_of(HALVED, "WRITE") in str(caught.value)

    def test_equal_values_are_fine(self, memory):
        data, out = np.arange(64, dtype=np.int32) // 2, np.zeros(64, np.int32)
        run(compiled(HALVED, PLACE="t / 2"), "halve", (1,), (64,), [data, out], memory=memory)
        np.testing.assert_array_equal(out, np.r_[0:32, [0] * 32])


@pytest.mark.parametrize("memory", MEMORIES)
class TestReadOfWhatNobodyWrote:
    def test_it_is_reported_at_its_line(self, memory):
        data, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
        code = compiled(AHEAD, USE="next")
        with pytest.raises(EmulationError, match="nothing has written") as caught:
            run(code, "ahead", (1,), (64,), [data, out], memory=memory, written_lds=True)
        assert line_of(AHEAD, "READ") in str(caught.value)

    def test_a_kernel_may_throw_the_value_away(self, memory):
        """A choice after the read: compilers make such reads of what the source only may read."""
        data, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
        code = compiled(AHEAD, USE="t < 63 ? next : 0")
        report = run(code, "ahead", (1,), (64,), [data, out], memory=memory)
        np.testing.assert_array_equal(out, np.r_[1:64, 0])
        assert report.unwritten_reads.sum() == 1


def test_races_can_be_listed_instead():
    data, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    report = run(
        compiled(REVERSE, BARRIER=""), "reverse", (1,), (256,), [data, out], races="collect"
    )
    assert report.races
    assert report.races[0].waves[0] != report.races[0].waves[1]
    assert line_of(REVERSE, "READ") in str(report)


@pytest.mark.parametrize("memory", MEMORIES)
class TestShortWait:
    arrays = (np.arange(64, dtype=np.float32), np.full(64, 0.5, np.float32))

    def test_it_is_reported_with_the_load_and_the_use(self, memory):
        out = np.zeros(64, np.float32)
        with pytest.raises(EmulationError, match="early read of v") as caught:
            run(
                compiled(TWO_LOADS, COUNT=1), "add", (1,), (64,), [*self.arrays, out], memory=memory
            )
        assert caught.value.kind == "early"
        for marker in ("LOAD", "USE"):
            assert line_of(TWO_LOADS, marker) in str(caught.value)

    def test_the_corrected_kernel_is_clean(self, memory):
        out = np.zeros(64, np.float32)
        run(compiled(TWO_LOADS, COUNT=0), "add", (1,), (64,), [*self.arrays, out], memory=memory)
        np.testing.assert_array_equal(out, self.arrays[0] + 0.5)


@pytest.mark.parametrize("memory", MEMORIES)
class TestLdsDma:
    data = np.arange(512, dtype=np.float32)

    def launch(self, memory, count, barrier, **options):
        out = np.zeros(256, np.float32)
        code = compiled(DMA, COUNT=count, BARRIER=barrier)
        report = run(code, "copy", (1,), (256,), [self.data, out], memory=memory, **options)
        return report, out

    def test_a_wait_that_leaves_the_last_dma_in_flight_is_reported(self, memory):
        with pytest.raises(EmulationError, match="LDS DMA that has not been waited for") as caught:
            self.launch(memory, 1, "")
        for marker in ("DMA", "READ"):
            assert line_of(DMA, marker) in str(caught.value)

    def test_a_full_wait_is_clean(self, memory):
        report, out = self.launch(memory, 0, "")
        np.testing.assert_array_equal(out.reshape(4, 64), self.data.reshape(4, 2, 64)[:, 1])
        assert report.races == []

    def test_lazy_dma_shows_in_the_values_when_races_are_not_checked(self, memory):
        _, out = self.launch(memory, 1, "", races=False)
        assert np.isnan(out).all() == (memory == "lazy")


class TestOutOfBounds:
    def test_it_is_reported_with_buffer_offset_and_lane(self):
        data, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        with pytest.raises(
            EmulationError, match="global read of 4 bytes at offset 256 of buffer"
        ) as caught:
            run(compiled(SHIFTED, OFFSET=1), "shift", (1,), (64,), [data, out])
        assert caught.value.kind == "bounds"
        assert caught.value.lane == 63
        assert line_of(SHIFTED, "READ") in str(caught.value)

    def test_before_the_start(self):
        data, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        with pytest.raises(EmulationError, match="4 bytes before buffer") as caught:
            run(compiled(SHIFTED, OFFSET=-1), "shift", (1,), (64,), [data[1:], out])
        assert caught.value.lane == 0

    def test_the_corrected_kernel_is_clean(self):
        data, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        run(compiled(SHIFTED, OFFSET=0), "shift", (1,), (64,), [data, out])
        np.testing.assert_array_equal(out, data)

    def test_a_read_only_array_may_not_be_written(self):
        data, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        out.flags.writeable = False
        with pytest.raises(EmulationError, match="read-only"):
            run(compiled(SHIFTED, OFFSET=0), "shift", (1,), (64,), [data, out])


class TestBankConflict:
    data = np.arange(64 * 64, dtype=np.float32)

    def test_reading_a_column_is_reported_at_its_line(self):
        out = np.zeros(64, np.float32)
        report = run(compiled(COLUMN, PITCH=64), "column", (1,), (64,), [self.data, out])
        np.testing.assert_array_equal(out, self.data.reshape(64, 64).sum(axis=1))
        assert report.bank_conflicts
        assert all(line_of(COLUMN, "READ") in where for where in report.bank_conflicts)

    def test_a_padded_pitch_is_clean(self):
        out = np.zeros(64, np.float32)
        report = run(compiled(COLUMN, PITCH=65), "column", (1,), (64,), [self.data, out])
        np.testing.assert_array_equal(out, self.data.reshape(64, 64).sum(axis=1))
        assert report.bank_conflicts == {}

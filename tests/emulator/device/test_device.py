"""Launches on the virtual device: what the emulator is given, and what comes back."""

import numpy as np
import pytest

from rocke_cupy.emulator import device
from rocke_cupy.emulator.device.settings import options

pytestmark = pytest.mark.gpu

SOURCE = """
struct Three { char c; double d; short s; };
extern "C" __global__ void write(Three t, const float* x, float* y, int n, float scale, char* z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * scale + t.c + t.d + t.s;
    if (z) *z = 7;
}
extern "C" __global__ void past_the_end(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x + 1];
}
extern "C" __global__ void sizes(unsigned* p) {
    unsigned v[] = {gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z};
    if (threadIdx.x + threadIdx.y + threadIdx.z + blockIdx.x + blockIdx.y + blockIdx.z == 0)
        for (int i = 0; i < 6; i++) p[i] = v[i];
}
extern "C" __global__ void early(int* p) {
    extern __shared__ int s[];
    s[threadIdx.x] = p[threadIdx.x];
    p[threadIdx.x] = s[threadIdx.x ^ 64];
}
extern "C" __global__ void which(int* p) { p[blockIdx.x] = blockIdx.x; }
"""


@pytest.fixture(autouse=True)
def _virtual():
    if not device.active():
        pytest.skip("the device here is a real one")


@pytest.fixture
def kernel(cp):
    return cp.RawModule(code=SOURCE).get_function


def test_arguments_of_all_kinds_arrive(cp, kernel):
    three = np.array((1, 2.5, 4), np.dtype([("c", "i1"), ("d", "f8"), ("s", "i2")], align=True))
    x = cp.asarray(np.arange(70, dtype=np.float32))
    y = cp.empty(70, np.float32)
    kernel("write")((2,), (64,), (three, x, y, np.int32(69), np.float32(0.5), None))
    assert y.get()[:69].tolist() == [i * 0.5 + 7.5 for i in range(69)]
    assert np.isnan(y.get()[69])


def test_grid_and_block_are_what_the_launch_said(cp, kernel):
    result = cp.empty(6, np.uint32)
    kernel("sizes")((3, 4, 5), (16, 3, 2), (result,))
    assert result.get().tolist() == [3, 4, 5, 16, 3, 2]


def test_an_access_past_the_end_names_argument_lane_and_instruction(cp, kernel):
    x, y = cp.empty(64, np.float32), cp.empty(64, np.float32)
    with pytest.raises(cp.cuda.driver.CUDADriverError) as caught:
        kernel("past_the_end")((1,), (64,), (x, y))
    text = str(caught.value)
    assert text.startswith("hipErrorLaunchFailure: global read of 4 bytes at offset 256")
    assert "argument 0" in text
    assert "kernel past_the_end, workgroup 0, wave 0, lane 63" in text
    assert "global_load_dword" in text


def test_memory_of_a_freed_array_is_out_of_bounds(cp, kernel):
    x, y = cp.empty(65, np.float32), cp.empty(64, np.float32)
    address = x.data.ptr
    del x
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="global read of 4 bytes"):
        kernel("past_the_end")((1,), (64,), (np.uint64(address), y))


def test_host_memory_is_out_of_bounds(cp, kernel):
    x, y = np.zeros(100, np.float32), cp.empty(64, np.float32)
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="global read of 4 bytes"):
        kernel("past_the_end")((1,), (64,), (np.uint64(x.ctypes.data), y))


def test_pinned_memory_is_within_bounds(cp, kernel):
    pinned = cp.cuda.PinnedMemoryPointer(cp.cuda.PinnedMemory(65 * 4), 0)
    host = np.frombuffer(pinned, np.float32, 65)
    host[:] = np.arange(65)
    y = cp.empty(64, np.float32)
    kernel("past_the_end")((1,), (64,), (np.uint64(pinned.ptr), y))
    assert (y.get() == host[1:]).all()


def test_the_device_goes_on_after_a_fault(cp, kernel):
    x, y = cp.asarray(np.arange(65, dtype=np.float32)), cp.empty(64, np.float32)
    with pytest.raises(cp.cuda.driver.CUDADriverError):
        kernel("past_the_end")((1,), (65,), (x, y))
    kernel("past_the_end")((1,), (64,), (x, y))
    assert (y.get() == np.arange(1, 65)).all()


def test_reports_keep_the_last_launches(cp, kernel):
    device.reports.clear()
    kernel("which")((5,), (1,), (cp.empty(5, np.int32),))
    (report,) = device.reports
    assert report.kernel.name == "which"
    assert report.grid == (5, 1, 1)
    assert report.count("global_store_dword") == 5


def test_workgroups_chooses_what_is_executed_and_the_end_restores(cp, kernel):
    result = cp.asarray(np.full(5, -1, np.int32))
    with device.configure(workgroups=[1, 3]):
        kernel("which")((5,), (1,), (result,))
    assert result.get().tolist() == [-1, 1, -1, 3, -1]
    kernel("which")((5,), (1,), (result,))
    assert result.get().tolist() == [0, 1, 2, 3, 4]


def test_nothing_is_executed_on_request_but_launches_are_checked(cp, kernel):
    result = cp.asarray(np.full(5, -1, np.int32))
    with device.configure(execute=False):
        kernel("which")((5,), (1,), (result,))
        with pytest.raises(cp.cuda.driver.CUDADriverError, match="more than 1024"):
            kernel("which")((5,), (2000,), (result,))
    assert result.get().tolist() == [-1] * 5


def test_a_race_is_an_error_unless_races_are_off(cp, kernel):
    values = cp.asarray(np.arange(128, dtype=np.int32))
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="race"):
        kernel("early")((1,), (128,), (values,), shared_mem=512)
    with device.configure(races=False):
        kernel("early")((1,), (128,), (values,), shared_mem=512)


def test_settings_nest_and_come_back_after_an_error():
    before = options()
    outer = device.configure(memory="eager")
    with outer, device.configure(schedule="random", seed=3):
        assert (options().memory, options().schedule) == ("eager", "random")
        assert options().seed == 3
    assert options() == before
    with pytest.raises(ZeroDivisionError), device.configure(memory="eager"):
        _ = 1 / 0
    assert options() == before


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"memory": "lazily"}, "memory='lazily' must be one of"),
        ({"schedule": "x"}, "schedule='x'"),
        ({"quantum": 0}, "quantum=0 must be at least 1"),
    ],
)
def test_a_wrong_setting_is_named(setting, text):
    with pytest.raises(ValueError, match=text):
        device.configure(**setting)


def test_a_setting_that_there_is_not_is_an_error():
    before = options()
    with pytest.raises(TypeError, match="memry"):
        device.configure(memry="eager")
    assert options() is before


def test_launches_are_timed_on_request(cp, kernel):
    with device.configure(timing=True):
        kernel("which")((5,), (1,), (cp.empty(5, np.int32),))
    assert sorted(device.reports[-1].timing.cycles) == [0, 1, 2, 3, 4]


def test_a_setting_that_the_emulator_refuses_fails_the_launch(cp, kernel):
    wrong = pytest.raises(cp.cuda.driver.CUDADriverError, match=r"InvalidValue.*ids below 5")
    with device.configure(workgroups=[5]), wrong:
        kernel("which")((5,), (1,), (cp.empty(5, np.int32),))


def test_an_array_does_not_run_into_its_neighbour(cp, kernel):
    # whole pages, allocated one after the other
    x, y = cp.empty(1024, np.float32), cp.empty(1024, np.float32)
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="offset 4096 of buffer argument 0"):
        kernel("past_the_end")((1,), (1024,), (x, y))

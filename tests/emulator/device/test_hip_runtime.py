"""The HIP runtime stand-in, through CuPy's own bindings."""

import ctypes

import numpy as np
import pytest

from rocke_cupy.emulator import device
from rocke_cupy.emulator.device import hip_abi as abi
from rocke_cupy.emulator.execution.dispatch import STACK_SIZE

pytestmark = pytest.mark.gpu

SPIN = 'extern "C" __global__ void nothing(float* p) { if (p) p[0] = 1; }'
COUNTING = """
__device__ int table[4] = {1, 2, 3, 4};
extern "C" __global__ void add(int* p) { p[threadIdx.x] = table[threadIdx.x]++; }
"""
BOUNDED = 'extern "C" __global__ __launch_bounds__(128) void bounded(float* p) { if (p) p[0] = 1; }'

DEEP = """
__device__ __attribute__((noinline)) int depth(int n) {
  volatile int kept[8];
  kept[n % 8] = n;
  return n == 0 ? 0 : 1 + depth(n - 1) + kept[n % 8] - n;
}
extern "C" __global__ void deep(int* out, int n) { out[threadIdx.x] = depth(n); }
"""


@pytest.fixture(autouse=True)
def _virtual():
    if not device.active():
        pytest.skip("the device here is a real one")


@pytest.fixture
def runtime(cp):
    return cp.cuda.runtime


@pytest.fixture
def nothing(cp):
    return cp.RawModule(code=SPIN).get_function("nothing")


@pytest.fixture
def hip():
    """The stand-in itself, for calls that CuPy does not make."""
    return abi.runtime()


# ---- the device ----


def test_says_that_it_is_a_virtual_mi355x(cp, runtime):
    properties = runtime.getDeviceProperties(0)
    assert b"MI355X (virtual" in properties["name"]
    assert properties["gcnArchName"] == b"gfx950:sramecc+:xnack-"
    assert properties["multiProcessorCount"] == 256
    assert properties["sharedMemPerBlock"] == 163840
    assert properties["warpSize"] == 64
    assert properties["totalGlobalMem"] == 288 << 30
    assert properties["maxThreadsPerBlock"] == 1024
    assert cp.cuda.Device().compute_capability == "95"
    assert cp.cuda.is_available()


@pytest.mark.parametrize(
    ("number", "value"),
    # hipDeviceAttribute_t: warp size, units, LDS of a block, threads of a block, major, minor, L1
    [(87, 64), (63, 256), (74, 163840), (56, 1024), (23, 9), (61, 5), (14, 1), (20, 1)],
)
def test_attributes_agree_with_the_properties(runtime, number, value):
    assert runtime.deviceGetAttribute(number, 0) == value


def test_an_unknown_attribute_is_an_error(runtime):
    with pytest.raises(runtime.CUDARuntimeError, match="attribute 777 is not known"):
        runtime.deviceGetAttribute(777, 0)


def test_a_device_that_is_not_there_is_an_error(runtime):
    count = runtime.getDeviceCount()
    with pytest.raises(runtime.CUDARuntimeError, match=rf"device {count} must be from 0 to"):
        runtime.setDevice(count)


def test_finds_the_device_by_its_bus_id(runtime):
    assert runtime.deviceGetByPCIBusId(runtime.deviceGetPCIBusId(0)) == 0
    with pytest.raises(runtime.CUDARuntimeError, match="no device has the PCI bus id"):
        runtime.deviceGetByPCIBusId("0000:ff:00.0")


# ---- memory ----


def test_arrays_have_allocations_of_their_exact_size(cp, runtime):
    before = runtime.memGetInfo()[0]
    array = cp.empty(1001, np.uint8)
    assert before - runtime.memGetInfo()[0] == 1001
    del array
    assert runtime.memGetInfo()[0] == before


def test_fresh_memory_is_nan_in_every_float_type(cp):
    for dtype in (np.float16, np.float32, np.float64):
        assert np.isnan(cp.empty(100, dtype).get()).all()


def test_an_allocation_past_4_gib_costs_only_what_is_touched(cp):
    array = cp.empty(40 << 30, np.uint8)
    before = resident_bytes()
    array[-5:].set(np.arange(5, dtype=np.uint8))
    array[(4 << 30) + 1 : (4 << 30) + 3].set(np.array([7, 8], np.uint8))
    assert array[-5:].get().tolist() == [0, 1, 2, 3, 4]
    assert array[4 << 30 : (4 << 30) + 4].get().tolist() == [0, 7, 8, 0]
    assert resident_bytes() - before < 16 << 20


def test_zeros_past_4_gib_cost_nothing(cp):
    before = resident_bytes()
    array = cp.zeros(8 << 30, np.uint8)
    assert resident_bytes() - before < 16 << 20
    assert not array[-1000:].get().any()


def test_zeros_overwrite_what_was_there(cp):
    array = cp.empty((3 << 20) + 5, np.uint8)
    array.set(np.full(array.size, 9, np.uint8))
    array.data.memset(0, array.nbytes)
    assert not array.get().any()
    array.set(np.full(array.size, 9, np.uint8))
    (array.data + 1).memset(0, array.nbytes - 2)  # neither end is on a page
    assert array.get().nonzero()[0].tolist() == [0, array.size - 1]


def resident_bytes():
    return status_bytes("VmRSS")


def status_bytes(name):
    """A figure of the process: VmRSS, or VmPTE for its page tables."""
    with open("/proc/self/status") as file:
        (kilobytes,) = (line.split()[1] for line in file if line.startswith(name + ":"))
    return int(kilobytes) << 10


def test_neither_freed_nor_kept_allocations_use_up_the_kernels_maps(hip):
    """A process may have 65,530 maps, and page tables for a million allocations take 2 GiB."""
    maps, tables = maps_of_process(), status_bytes("VmPTE")
    kept = []
    for _ in range(17_000):
        freed, held = ctypes.c_void_p(), ctypes.c_void_p()
        assert hip.hipMalloc(ctypes.byref(freed), 8) == abi.SUCCESS
        assert hip.hipMalloc(ctypes.byref(held), 8) == abi.SUCCESS
        assert hip.hipFree(freed) == abi.SUCCESS
        kept.append(held)
    assert maps_of_process() < maps + 100
    for held in reversed(kept):
        assert hip.hipFree(held) == abi.SUCCESS
    assert status_bytes("VmPTE") < tables + (8 << 20)


def maps_of_process():
    with open("/proc/self/maps") as file:
        return sum(1 for _ in file)


def test_more_than_the_device_has_is_out_of_memory(cp):
    with pytest.raises(cp.cuda.memory.OutOfMemoryError, match=r"allocating 322,122,547,200 bytes"):
        cp.empty(300 << 30, np.uint8)


def test_copies_in_all_directions(cp):
    values = np.arange(50, dtype=np.float32)
    first = cp.asarray(values)
    second = first.copy()
    assert (second.get() == values).all()
    second[10:20] = first[:10]
    assert (second.get()[10:20] == values[:10]).all()


def test_a_copy_past_the_end_says_how_far(cp, runtime):
    array = cp.empty(100, np.uint8)
    host = np.empty(200, np.uint8)
    with pytest.raises(runtime.CUDARuntimeError, match=r"110 bytes.*100 bytes ends after 100"):
        runtime.memcpy(host.ctypes.data, array.data.ptr, 110, runtime.memcpyDeviceToHost)
    with pytest.raises(runtime.CUDARuntimeError, match="in no live allocation"):
        runtime.memcpy(host.ctypes.data, array.data.ptr + 100, 1, runtime.memcpyDeviceToHost)


def test_a_copy_between_rows_is_checked_row_by_row(cp, hip):
    array = cp.empty((4, 10), np.uint8)
    host = np.arange(32, dtype=np.uint8)
    to, source = ctypes.c_void_p(array.data.ptr), ctypes.c_void_p(host.ctypes.data)
    size = ctypes.c_size_t
    assert hip.hipMemcpy2D(to, size(10), source, size(8), size(8), size(4), 1) == abi.SUCCESS
    assert array.get()[3, :8].tolist() == list(range(24, 32))
    assert array.get()[3, 8:].tolist() == [255, 255]
    assert hip.hipMemcpy2D(to, size(10), source, size(8), size(8), size(5), 1) == abi.INVALID_VALUE


def test_host_memory_is_not_taken_for_device_memory(runtime):
    host = np.empty(8, np.uint8)
    with pytest.raises(runtime.CUDARuntimeError, match="is host memory"):
        runtime.memcpy(host.ctypes.data, host.ctypes.data, 8, runtime.memcpyDeviceToDevice)
    with pytest.raises(runtime.CUDARuntimeError, match="is host memory"):
        runtime.memset(host.ctypes.data, 0, 8)


def test_a_null_pointer_is_called_one(runtime):
    with pytest.raises(runtime.CUDARuntimeError, match="the destination is null"):
        runtime.memset(0, 0, 8)


def test_freed_memory_is_known_to_be_freed(cp, runtime):
    pointer = runtime.malloc(100)
    runtime.free(pointer)
    with pytest.raises(runtime.CUDARuntimeError, match="freed twice"):
        runtime.free(pointer)
    with pytest.raises(runtime.CUDARuntimeError, match="in no live allocation"):
        runtime.memset(pointer, 0, 1)
    assert runtime.malloc(100) != pointer  # addresses are not used again


def test_pointers_are_told_apart(cp, runtime):
    array = cp.empty(100, np.uint8)
    inside = runtime.pointerGetAttributes(array.data.ptr + 50)
    assert (inside.device, inside.type, inside.devicePointer) == (0, 2, array.data.ptr + 50)
    host = np.empty(8, np.uint8)
    # CuPy makes type 1, "host", of HIP's 0, "unregistered"
    assert runtime.pointerGetAttributes(host.ctypes.data).type == 1


# ---- streams and events ----


def test_a_stream_has_its_flags_and_goes_away(cp, runtime, nothing):
    stream = cp.cuda.Stream(non_blocking=True)
    pointer = stream.ptr
    with stream:
        nothing((1,), (1,), (None,))
    stream.synchronize()
    assert stream.done
    del stream
    with pytest.raises(runtime.CUDARuntimeError, match="is not a stream"):
        runtime.streamSynchronize(pointer)


def test_time_between_events_passes(cp):
    start, end = cp.cuda.Event(), cp.cuda.Event()
    start.record()
    cp.asarray(np.ones(1000))
    end.record()
    assert 0 < cp.cuda.get_elapsed_time(start, end) < 60e3


def test_an_event_that_was_not_recorded_has_no_time(cp, runtime):
    recorded = cp.cuda.Event()
    recorded.record()
    with pytest.raises(runtime.CUDARuntimeError, match="never recorded"):
        cp.cuda.get_elapsed_time(recorded, cp.cuda.Event())


def test_host_functions_run(cp):
    called = []
    cp.cuda.Stream().launch_host_func(called.append, 5)
    assert called == [5]


def test_capture_is_refused_with_a_sentence(cp, runtime):
    with pytest.raises(runtime.CUDARuntimeError, match=r"hipErrorNotSupported: hipStreamBegin"):
        cp.cuda.Stream(non_blocking=True).begin_capture()


# ---- launches ----


@pytest.mark.parametrize(
    ("grid", "block", "shared", "text"),
    [
        ((1,), (1025,), 0, r"hipErrorInvalidValue.*1025 threads, more than 1024"),
        ((1,), (64, 17), 0, r"hipErrorInvalidValue.*1088 threads, more than 1024"),
        ((1,), (64,), 163841, r"hipErrorInvalidValue.*163841 of dynamic shared memory"),
        ((1 << 26,), (64,), 0, r"hipErrorInvalidConfiguration.*below 2\*\*32"),
        ((1, 1 << 26), (1, 64), 0, r"hipErrorInvalidConfiguration.*dimension 1"),
    ],
)
def test_a_launch_that_the_device_cannot_do_is_refused(cp, nothing, grid, block, shared, text):
    with pytest.raises(cp.cuda.driver.CUDADriverError, match=text):
        nothing(grid, block, (None,), shared_mem=shared)


def test_a_launch_at_the_limits_runs(cp, nothing):
    result = cp.empty(1, np.float32)
    nothing((1,), (1024,), (result,), shared_mem=163840)
    assert result.get() == [1]


def test_a_block_past_the_launch_bounds_is_a_launch_failure(cp):
    bounded = cp.RawModule(code=BOUNDED).get_function("bounded")
    bounded((1,), (128,), (None,))
    with pytest.raises(cp.cuda.driver.CUDADriverError, match=r"LaunchFailure.*192.*at most 128"):
        bounded((1,), (192,), (None,))


def test_a_refused_launch_that_nobody_looked_at_is_told_by_the_next_call(cp, runtime):
    cp.random.XORWOW(1, size=0)  # launches no thread, with a kernel that came compiled
    with pytest.raises(runtime.CUDARuntimeError, match="grid and block must be at least 1"):
        cp.cuda.Device().synchronize()
    cp.cuda.Device().synchronize()
    numbers = cp.random.Generator(cp.random.XORWOW(1, size=0))
    with pytest.raises(runtime.CUDARuntimeError, match="grid and block must be at least 1"):
        numbers.random(3).get()


def test_function_attributes_come_from_the_code_object(cp):
    source = 'extern "C" __global__ __launch_bounds__(256) void k(int* p) {' \
        "__shared__ int s[100]; s[threadIdx.x % 100] = p[0]; __syncthreads();" \
        "p[threadIdx.x] = s[(threadIdx.x + 1) % 100]; }"  # fmt: skip
    attributes = cp.RawModule(code=source).get_function("k").attributes
    assert attributes["max_threads_per_block"] == 256
    assert attributes["shared_size_bytes"] == 400
    assert attributes["max_dynamic_shared_size_bytes"] == 163840 - 400
    assert attributes["local_size_bytes"] == 0
    assert 0 < attributes["num_regs"] < 64


def test_a_missing_kernel_is_not_found_and_does_not_poison_the_next_launch(cp):
    module = cp.RawModule(code=SPIN)
    with pytest.raises(cp.cuda.driver.CUDADriverError, match=r"NotFound: there is no kernel 'no'"):
        module.get_function("no")
    module.get_function("nothing")((1,), (1,), (None,))


def test_a_module_variable_is_read_and_written_from_the_host(cp):
    module = cp.RawModule(code=COUNTING)
    table = cp.ndarray((4,), np.int32, module.get_global("table"))
    assert table.get().tolist() == [1, 2, 3, 4]
    table.set(np.array([10, 20, 30, 40], np.int32))
    result = cp.empty(4, np.int32)
    module.get_function("add")((1,), (4,), (result,))
    assert result.get().tolist() == [10, 20, 30, 40]
    assert table.get().tolist() == [11, 21, 31, 41]
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="no variable 'missing'"):
        module.get_global("missing")


def test_a_module_from_a_file_and_from_bytes(cp, tmp_path):
    from rocke_cupy.emulator import hiprtc

    code = hiprtc.compile(SPIN).code
    (tmp_path / "k.hsaco").write_bytes(code[:-1])  # as CuPy keeps them
    result = cp.empty(1, np.float32)
    cp.RawModule(path=str(tmp_path / "k.hsaco")).get_function("nothing")((1,), (1,), (result,))
    assert result.get() == [1]
    module = cp.cuda.Module()
    module.load(code)
    module.get_function("nothing")((1,), (1,), (result,))


def test_what_is_no_code_object_is_refused(cp, tmp_path):
    from rocke_cupy.emulator import hiprtc

    other = hiprtc.compile(SPIN, ["--offload-arch=gfx942"]).code
    for image, text in (
        (b"text" * 50, "no code object"),
        (other, "NoBinaryForGpu.*not for gfx950"),
    ):
        with pytest.raises(cp.cuda.driver.CUDADriverError, match=text):
            cp.cuda.Module().load(image)
    with pytest.raises(cp.cuda.driver.CUDADriverError, match=r"FileNotFound.*nothing\.hsaco"):
        cp.RawModule(path=str(tmp_path / "nothing.hsaco")).get_function("nothing")


def test_every_function_that_cupy_imports_is_there(hip):
    from rocke_cupy.emulator.device.cupy_imports import cupy_folder, read_imports

    names = read_imports(cupy_folder()).by_version("hip|roc|nccl")
    missing = [name for group in names.values() for name in group if not hasattr(hip, name)]
    assert len(names["hip_4.2"]) > 50
    assert missing == []


def test_a_function_of_another_library_says_that_it_is_missing(cp, capfd):
    with pytest.raises(cp.cuda.cufft.CuFFTError):
        cp.fft.fft(cp.asarray(np.zeros(8, np.complex64)))
    assert "hipfftCreate is not supported on the virtual device" in capfd.readouterr().err


def test_the_stack_of_recursive_kernels_is_a_limit_of_the_device(cp, hip, runtime):
    kernel = cp.RawModule(code=DEEP).get_function("deep")
    out = cp.zeros(64, np.int32)
    assert runtime.deviceGetLimit(0) == STACK_SIZE
    with pytest.raises(cp.cuda.driver.CUDADriverError, match="hipLimitStackSize"):
        kernel((1,), (64,), (out, cp.int32(60)))
    assert hip.hipDeviceSetLimit(0, ctypes.c_size_t(8192)) == abi.SUCCESS
    try:
        kernel((1,), (64,), (out, cp.int32(60)))
    finally:
        assert hip.hipDeviceSetLimit(0, ctypes.c_size_t(STACK_SIZE)) == abi.SUCCESS
    assert (out.get() == 60).all()
    assert hip.hipDeviceSetLimit(0, ctypes.c_size_t(0)) == abi.INVALID_VALUE
    with pytest.raises(runtime.CUDARuntimeError, match="limit 2 is not supported"):
        runtime.deviceGetLimit(2)

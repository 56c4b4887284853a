"""Large code objects give the same results as small ones, a kernel at a time."""

import ctypes

import numpy as np
import pytest

from rocke_cupy.emulator import hiprtc, launch
from rocke_cupy.emulator.execution.memory import Buffer
from rocke_cupy.emulator.program import large_code
from rocke_cupy.emulator.rocm.wheel import ToolsError

SOURCE = """
__device__ int table[64];
__device__ __attribute__((noinline)) int square(int x) { return x * x + table[x & 63]; }
extern "C" __global__ void first(int* p) { p[threadIdx.x] = threadIdx.x + 1; }
extern "C" __global__ void calling(int* p) { p[threadIdx.x] = square(threadIdx.x); }
extern "C" __global__ void last(int* p) {
    int s = 0;
    for (int i = 0; i <= threadIdx.x; i++) s += p[i] + table[i];
    p[threadIdx.x + 64] = s;
}
"""


@pytest.fixture(scope="module")
def code():
    try:
        return hiprtc.compile(SOURCE).code
    except ToolsError as error:
        pytest.skip(str(error))


def run(loaded, kernel, data):
    """Run one wave of a kernel on an array."""
    kernarg = data.ctypes.data.to_bytes(8, "little")
    buffers = [Buffer(data.ctypes.data, data.nbytes, "data")]
    launch(loaded.program_of(kernel), kernel, (1,), (64,), kernarg, buffers)


EXPECTED = {
    "first": lambda table: np.concatenate([np.arange(1, 65), np.arange(64, 128)]),
    "calling": lambda table: np.concatenate([np.arange(64) ** 2 + table, np.arange(64, 128)]),
    "last": lambda table: np.concatenate([np.arange(64), np.cumsum(np.arange(64) + table)]),
}


@pytest.mark.parametrize("kernel", EXPECTED)
@pytest.mark.parametrize(("how", "step"), [(large_code._Whole, 3), (large_code._Large, 5)])
def test_kernels_run_with_the_variables_that_the_host_sees(code, kernel, how, step):
    loaded = how(code)
    address, size = loaded.symbol_address("table")
    assert size == 256
    table = np.ctypeslib.as_array((ctypes.c_int32 * 64).from_address(address))
    table[:] = np.arange(64) * step
    data = np.arange(128, dtype=np.int32)
    run(loaded, kernel, data)
    assert (data == EXPECTED[kernel](table)).all()


def test_only_the_kernel_that_is_asked_for_is_made_ready(code):
    whole, large = large_code._Whole(code), large_code._Large(code)
    total = len(whole.program_of("first").instructions)
    assert 0 < len(large.program_of("first").instructions) < total / 2
    assert large.program_of("first") is large.program_of("first")


def test_a_kernel_that_calls_functions_gets_all_of_them(code):
    large, whole = large_code._Large(code), large_code._Whole(code)
    assert large.program_of("calling").instructions == whole.program_of("calling").instructions


def test_size_decides(code, monkeypatch):
    large_code.load_module.cache_clear()
    assert isinstance(large_code.load_module(code), large_code._Whole)
    large_code.load_module.cache_clear()
    monkeypatch.setattr(large_code, "_LARGE", len(code) - 1)
    assert isinstance(large_code.load_module(code), large_code._Large)
    large_code.load_module.cache_clear()

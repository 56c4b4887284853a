"""Buffer instructions as both compilers emit them for LLVM's intrinsics."""

import numpy as np
import pytest

from rocke_cupy.emulator import hiprtc, run

SOURCE = """
typedef int Words __attribute__((ext_vector_type(4)));
__device__ int load_scalar(Words, int, int) __asm("llvm.amdgcn.s.buffer.load.i32");
__device__ int load_record(Words, int, int, int, int) __asm("llvm.amdgcn.struct.buffer.load.i32");
__device__ void store_record(int, Words, int, int, int, int)
    __asm("llvm.amdgcn.struct.buffer.store.i32");

__device__ Words resource(const void* base, int stride, int records) {
  unsigned long long at = (unsigned long long)base;
  return Words{(int)at, (int)(at >> 32) | stride << 16, records, 0x00027000};
}

extern "C" __global__ void records(const int* in, int* out, int at) {
  Words source = resource(in, 12, 50), target = resource(out, 8, 60);
  int lane = threadIdx.x;
  int value = load_record(source, lane, at, 4, 0) + load_scalar(resource(in, 0, 256), at, 0);
  store_record(value, target, 63 - lane, 4, 0, 0);
}

extern "C" __global__ void bytes_to_lds(const unsigned char* in, int* out) {
  __shared__ int lds[64];
  auto from = (__attribute__((address_space(1))) void*)(in + 3 * threadIdx.x);
  __builtin_amdgcn_global_load_lds(from, (__attribute__((address_space(3))) void*)lds, 1, 0, 0);
  __syncthreads();
  out[threadIdx.x] = lds[threadIdx.x ^ 1];
}
"""
ROCM = ("7.0", "7.14")


@pytest.mark.parametrize("rocm", ROCM)
def test_records(rocm):
    code = hiprtc.compile(SOURCE, rocm=rocm).code
    numbers = np.arange(256, dtype=np.int32) * 7
    out = np.zeros(128, np.int32)
    report = run(code, "records", (1,), (64,), [numbers, out, np.int32(4)])
    assert report.count("s_buffer_load_dword") == 1
    assert report.count("buffer_load_dword") == 1
    lane = np.arange(64)
    loaded = np.where(lane < 50, numbers[(3 * lane + 2) % 256], 0) + numbers[1]
    expected = np.zeros((64, 2), np.int32)
    expected[63 - lane, 1] = np.where(63 - lane < 60, loaded, 0)
    np.testing.assert_array_equal(out.reshape(64, 2), expected)


@pytest.mark.parametrize("rocm", ROCM)
def test_bytes_to_lds(rocm):
    code = hiprtc.compile(SOURCE, rocm=rocm).code
    source = np.random.default_rng(3).integers(0, 256, 192, np.uint8)
    out = np.zeros(64, np.int32)
    report = run(code, "bytes_to_lds", (1,), (64,), [source, out])
    assert report.count("global_load_lds_ubyte") == 1
    np.testing.assert_array_equal(out, source[3 * (np.arange(64) ^ 1)])

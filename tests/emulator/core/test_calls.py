"""Kernels whose stack the compiler cannot count: recursion and calls through pointers."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, hiprtc, load, run

pytestmark = pytest.mark.network

SOURCE = r"""
__device__ __attribute__((noinline)) int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
extern "C" __global__ void recursion(int* out) { out[threadIdx.x] = fibonacci(threadIdx.x % 10); }

__device__ __attribute__((noinline)) int depth(int n) {
  volatile int kept[8];
  kept[n % 8] = n;
  return n == 0 ? 0 : 1 + depth(n - 1) + kept[n % 8] - n;
}
extern "C" __global__ void deep(int* out, int n) { out[threadIdx.x] = depth(n); }

typedef int Function(int);
__device__ __attribute__((noinline)) int twice(int x) { return 2 * x; }
__device__ __attribute__((noinline)) int square(int x) { return x * x; }
__device__ Function* const functions[2] = {twice, square};
extern "C" __global__ void pointers(int* out) {
  out[threadIdx.x] = functions[threadIdx.x % 2](threadIdx.x);
}

struct Shape { __device__ virtual int area(int) const = 0; };
struct Square : Shape { __device__ int area(int a) const override { return a * a; } };
struct Line : Shape { __device__ int area(int) const override { return 0; } };
extern "C" __global__ void virtuals(int* out) {
  Square square;
  Line line;
  const Shape* shapes[2] = {&square, &line};
  out[threadIdx.x] = shapes[out[threadIdx.x]]->area(threadIdx.x);
}
"""
LANES = np.arange(64)


@pytest.fixture(scope="module", params=["7.0", "7.14"])
def code(request):
    return hiprtc.compile(SOURCE, ["-O1"], rocm=request.param).code


def test_recursion(code):
    assert load(code).kernels["recursion"].dynamic_stack
    out = np.zeros(64, np.int32)
    run(code, "recursion", (1,), (64,), [out])
    assert out[:10].tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


def test_calls_through_pointers(code):
    assert load(code).kernels["pointers"].dynamic_stack
    out = np.zeros(64, np.int32)
    run(code, "pointers", (1,), (64,), [out])
    np.testing.assert_array_equal(out, np.where(LANES % 2, LANES**2, 2 * LANES))


def test_virtual_calls(code):
    out = (LANES % 2).astype(np.int32)
    run(code, "virtuals", (1,), (64,), [out])
    np.testing.assert_array_equal(out, np.where(LANES % 2, 0, LANES**2))


def test_a_stack_that_overflows_is_named_and_can_be_larger(code):
    out = np.zeros(64, np.int32)
    with pytest.raises(
        EmulationError, match=r"1024 bytes of a lane: the stack .* overflows"
    ) as error:
        run(code, "deep", (1,), (64,), [out, np.int32(60)])
    assert error.value.kind == "scratch_bounds"
    run(code, "deep", (1,), (64,), [out, np.int32(60)], stack_size=16384)
    assert (out == 60).all()

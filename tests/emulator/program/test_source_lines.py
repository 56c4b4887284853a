"""Source lines of machine code, through functions that were inlined."""

import re

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, hiprtc, load, run
from rocke_cupy.emulator.program.source_lines import Place

pytestmark = pytest.mark.network

SOURCE = """
__device__ inline void count(int* x, int by) {
  atomicAdd(x + by, 1);                                                   // HERE
}
extern "C" __global__ void counts(int* x) {
  count(x, 1000 * threadIdx.x);
}
extern "C" __global__ void exchanges(float* y, int from) {
  y[threadIdx.x] = __shfl(y[threadIdx.x], from) + __shfl_up(y[threadIdx.x + 64], 3);
}
"""


@pytest.fixture(scope="module", params=["7.0", "7.14"])
def code(request):
    return hiprtc.compile(SOURCE, ["-gline-tables-only"], rocm=request.param).code


def test_a_fault_in_a_function_of_the_runtime_shows_the_line_that_calls_it(code):
    with pytest.raises(EmulationError) as error:
        run(code, "counts", (1,), (64,), [np.zeros(64, np.int32)])
    (line,) = (n for n, text in enumerate(SOURCE.split("\n"), 1) if "// HERE" in text)
    assert re.search(rf"\(kernel\.hip:{line}, in hiprtc_runtime\.h:\d+\)$", str(error.value))


def test_no_instruction_of_a_kernel_is_without_a_line_of_its_file(code):
    program = load(code)
    described = [program.describe(k) for k in range(len(program.instructions))]
    of_kernels = [text for text in described if text.startswith(("counts", "exchanges"))]
    inlined = [text for text in of_kernels if ", in hiprtc_runtime.h" in text]
    # A call may be inlined in several pieces, as __shfl is.
    assert len({text.partition("(")[2] for text in inlined}) > 3
    for text in of_kernels:
        if "s_code_end" not in text and "s_nop" not in text:
            assert "(kernel.hip:" in text, text


@pytest.mark.parametrize(
    ("path", "is_header"),
    [
        ("comgr-1/include/hiprtc_runtime.h", True),
        ("rocm/include/hip/amd_detail/amd_hip_atomic.h", True),
        ("rocm/lib/llvm/lib/clang/20/include/__clang_hip_math.h", True),
        ("ship/kernel.hip", False),
        ("attention/flash_forward.hip", False),
        ("include/mine.h", False),
    ],
)
def test_headers_of_the_runtime_are_told_from_others(path, is_header):
    assert Place(path, 1).in_header == is_header
    assert str(Place(path, 7)) == path.rpartition("/")[2] + ":7"

"""Run a HIP kernel of your own on the emulator, and let it find a missing barrier.

Two waves add up a row through LDS. hipRTC compiles the kernel for gfx950, and the emulator executes
the machine code on NumPy arrays; it needs no CuPy and no device. Without its barrier the kernel
would often give the right sum on hardware. Here it is an error that names the lines.

    python examples/emulate_your_kernel.py
"""

import sys

import numpy as np

from rocke_cupy import emulator
from rocke_cupy.emulator import hiprtc

SOURCE = """
extern "C" __global__ __launch_bounds__(128)
void row_sum(const float* rows, float* sums, int columns) {
  __shared__ float of_wave[2];
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += 128) sum += rows[blockIdx.x * columns + i];
  for (int distance = 32; distance > 0; distance /= 2) sum += __shfl_down(sum, distance);
  if (threadIdx.x % 64 == 0) of_wave[threadIdx.x / 64] = sum;
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = of_wave[0] + of_wave[1];
}
"""


def row_sums(source, rows):
    """Return the sums of the rows, computed by the kernel, and the emulator's report."""
    code = hiprtc.compile(source, ["-gline-tables-only"]).code
    sums = np.full(len(rows), np.nan, np.float32)
    arguments = [rows, sums, np.int32(rows.shape[1])]
    report = emulator.run(code, "row_sum", grid=(len(rows),), block=(128,), args=arguments)
    return sums, report


def main():
    rows = np.random.default_rng(0).standard_normal((3, 1000), dtype=np.float32)
    sums, report = row_sums(SOURCE, rows)
    print(report)
    if not np.allclose(sums, rows.sum(axis=1), atol=1e-4):
        print(f"wrong sums: {sums}, not {rows.sum(axis=1)}")
        return 1

    try:
        row_sums(SOURCE.replace("__syncthreads();", ""), rows)
    except emulator.EmulationError as error:
        print(f"\nwithout the barrier:\n{error}")
        return 0 if error.kind == "race" else 1
    print("the missing barrier was not found")
    return 1


if __name__ == "__main__":
    sys.exit(main())

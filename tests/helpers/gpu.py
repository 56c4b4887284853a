"""Running a case on CuPy arrays with NaN around everything, and judging the result."""

import ml_dtypes
import numpy as np

import rocke_cupy
from helpers.budget import assert_within_budget
from helpers.fences import Fenced


def assert_parity(case, cp, *, gaps=False, working=None, **more):
    """Run a case and compare it with the budget; nothing outside ``out`` may change."""
    inputs = [Fenced(a, cp, gaps) for a in case.arrays()]
    out = Fenced.empty(inputs[0].array.shape, inputs[0].array.dtype, cp, gaps)
    arguments = case.arguments()
    if arguments["kv_lens"] is not None:
        arguments["kv_lens"] = cp.asarray(arguments["kv_lens"])
    result, lse = rocke_cupy.attention(
        *(a.array for a in inputs), out=out.array, return_lse=True, **arguments, **more
    )
    assert result is out.array
    assert_within_budget(case, out.numpy(), cp.asnumpy(lse), working)
    for array in (*inputs, out):
        array.assert_fence_intact()


def bits(array, cp=None):
    """Return an array's bits on the host, for comparisons that NaN and -0 do not fool."""
    array = np.asarray(array if cp is None else cp.asnumpy(array))
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def random(rng, *shape, dtype=ml_dtypes.bfloat16):
    """Return normal values on the host, in a 16-bit type by default."""
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)

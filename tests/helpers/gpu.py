"""Running a case on CuPy arrays with NaN around everything, and judging the result."""

import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, settings

import rocke_cupy
from helpers.budget import assert_within_budget
from helpers.fences import Fenced
from helpers.specs import spec


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


def spec_of(case, **changes):
    """Return the spec for a case."""
    fields = dict(
        batch=case.batch, seqlen_q=case.seqlen_q, seqlen_kv=case.seqlen_kv,
        num_query_heads=case.heads, num_kv_heads=case.kv_heads, head_size=case.head_dim,
        causal=case.causal, dtype=case.dtype, causal_alignment=case.alignment, ragged=True,
    )  # fmt: skip
    return spec(**{**fields, **changes})


def run_spec(cp, case, **changes):
    """Run a case by its spec, compare it, and return the bits of the result."""
    q, k, v = (cp.asarray(a) for a in case.arrays())
    out = cp.asarray(np.full(q.shape, np.nan, q.dtype))
    result, lse = rocke_cupy.run_attention_dense(
        spec=spec_of(case, **changes), q=q, k=k, v=v, out=out, scale=case.head_dim**-0.5,
        return_lse=True,
    )  # fmt: skip
    assert result is out
    assert_within_budget(case, cp.asnumpy(out), cp.asnumpy(lse))
    return bits(out, cp)


def same_cases(count):
    """Draw so many random cases, the same each time: a red run can be repeated.

    A fixture that only imports, as `cp` does, may be shared by them.
    """
    return settings(
        max_examples=count,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )

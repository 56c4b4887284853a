"""Keys cut into parts by the attention kernel and joined by the merging one, on the emulator."""

import dataclasses

import numpy as np
import pytest
from helpers.budget import assert_within_budget
from helpers.compiled import assert_nothing_spilled, compile_source
from helpers.emulated import launch, spec_for
from helpers.fences import Fenced
from helpers.problems import DTYPES, Case

from rocke_cupy import build_attention_dense
from rocke_cupy.emulator import run
from rocke_cupy.kernels.rows import MERGE_PARTS, merge_kernel, merge_shape

CASES = [
    Case(1, 640, heads=4, kv_heads=1, batch=2),
    Case(5, 700, heads=4, kv_heads=2, causal=True, amplitude=8),
    Case(70, 513, heads=2, kv_heads=2, head_dim=128, causal=True, dtype="fp16"),
    Case(9, 400, heads=3, kv_heads=1, window=(200, 10), kv_lens=(300,), amplitude=8),
    Case(40, 300, heads=2, kv_heads=1, head_dim=256, causal=True),
    Case(300, 100, heads=1, kv_heads=1, causal=True),  # the first 200 rows see no key
]


def parts_of(case, splits, rocm, memory="lazy", arrays=None, **fields):
    """Return the outputs and LSEs of all parts."""
    spec = spec_for(case, num_splits=splits, float32_out=True, **fields)
    assert_nothing_spilled(build_attention_dense(spec), rocm)
    q, k, v = arrays or case.arrays()
    parts = Fenced.empty((splits, *q.shape), np.float32)
    part_lses = Fenced.empty((splits, case.batch, case.heads, case.seqlen_q), np.float32)
    lengths = None if case.kv_lens is None else np.array(case.kv_lens, np.int32)
    launch(
        spec, q, k, v, parts.array[0], part_lses.array[0], case, rocm=rocm, kv_lens=lengths,
        buffers=[parts.array, part_lses.array], memory=memory,
    )  # fmt: skip
    parts.assert_fence_intact()
    part_lses.assert_fence_intact()
    assert not np.isnan(parts.array).any(), "every part of every row is written"
    return parts, part_lses


def attend_in_parts(case, splits, rocm, memory="lazy", **fields):
    parts, part_lses = parts_of(case, splits, rocm, memory, **fields)
    q, _, _ = case.arrays()
    out, lse = np.full(q.shape, np.nan, q.dtype), np.full_like(part_lses.array[0], np.nan)
    strides = [[a.strides[axis] for axis in (0, 2, 1)] for a in (part_lses.array[0], lse)]
    grid, shape = merge_shape(parts.array[0], out, *strides, splits)
    table = np.zeros((), MERGE_PARTS)
    table["out"][:splits] = [p.ctypes.data for p in parts.array]
    table["lse"][:splits] = [p.ctypes.data for p in part_lses.array]
    name, code = compile_source(merge_kernel(DTYPES["fp32"], q.dtype), rocm)
    arguments = [out, lse, np.asarray(shape), table]
    run(code, name, grid, (256,), arguments, buffers=[parts.array, part_lses.array])
    return out, lse


@pytest.mark.parametrize("splits", [2, 3, 11])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_parts_merge_into_the_result(case, splits):
    out, lse = attend_in_parts(case, splits, ("7.0", "7.14")[splits % 2])
    assert_within_budget(case, out, lse)


@pytest.mark.parametrize("memory", ["eager", "lazy"])
@pytest.mark.parametrize("rocm", ["7.0", "7.14"])
def test_with_packed_heads(rocm, memory):
    case = Case(1, 512, heads=8, kv_heads=2, batch=2, head_dim=128, amplitude=8)
    out, lse = attend_in_parts(case, 4, rocm, memory, pack_gqa=True, work_order="xcd")
    assert_within_budget(case, out, lse)


@pytest.mark.parametrize(
    "fields",
    [dict(head_size=64), dict(head_size=192), dict(head_size=192, streaming=True)],
    ids=str,
)
def test_a_part_knows_nothing_of_the_next_ones_keys(fields):
    """Large scores there would move the anchor of a loop that looks ahead."""
    case = Case(20, 256, 1, 1, head_dim=fields["head_size"])
    q, k, v = case.arrays()
    plain, plain_lse = parts_of(case, 2, "7.0", arrays=(q, k, v), **fields)
    k[:, 128:] *= 1000
    raised, raised_lse = parts_of(case, 2, "7.0", arrays=(q, k, v), **fields)
    assert raised.array[0].tobytes() == plain.array[0].tobytes()
    assert raised_lse.array[0].tobytes() == plain_lse.array[0].tobytes()
    assert (raised_lse.array[1] != plain_lse.array[1]).any()


def test_values_of_one_stay_exactly_one():
    case = dataclasses.replace(CASES[0], head_dim=64)

    class Ones(Case):
        def arrays(self):
            q, k, v = case.arrays()
            return [q, k, np.ones_like(v)]

    out, _ = attend_in_parts(Ones(1, 640, heads=4, kv_heads=1, batch=2), 5, "7.0")
    assert (out.astype(np.float32) == 1).all()

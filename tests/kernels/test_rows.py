"""Rows of Q and of the output between memory and registers: whole lines through LDS, or by lanes.

With NaN between the rows and around the arrays, in both memory modes of the emulator.
"""

import dataclasses

import numpy as np
import pytest
from helpers.budget import assert_within_budget
from helpers.emulated import launch, spec_for
from helpers.fences import Fenced
from helpers.problems import DTYPES, Case

MEMORIES = ("lazy", "eager")
ROCM = ("7.0", "7.14")

WAYS = {
    "through LDS": dict(),
    "through LDS, float32 out": dict(float32_out=True),
    "through LDS, four waves": dict(block_m=128),
    "by lanes": dict(pack_gqa=True),
    "by lanes, float32 out": dict(pack_gqa=True, float32_out=True),
    "by lanes, streaming": dict(streaming=True),
}
BASE = Case(37, 70, heads=4, kv_heads=2, batch=2, causal=True)


def check(case, rocm="7.0", memory="lazy", q=None, shift=0, **options):
    """Run a case on arrays with NaN between all rows; return the report.

    ``shift`` moves the output so many elements away from an aligned address.
    """
    arrays = case.arrays()
    inputs = [Fenced(a, gaps=True) for a in arrays]
    dtype = np.dtype(np.float32) if options.get("float32_out") else DTYPES[case.dtype]
    tail = (*arrays[0].shape[:-1], case.head_dim + shift)
    out = Fenced.empty(tail, dtype, gaps=True)
    lse = Fenced.empty((case.batch, case.heads, case.seqlen_q), np.float32)
    views = [f.array for f in inputs]
    if q is not None:
        views[0] = q
    memory = dict(memory=memory, rocm=rocm)
    result = out.array[..., shift:]
    report = launch(spec_for(case, **options), *views, result, lse.array, case, **memory)
    for fence in (*inputs, out, lse):
        fence.assert_fence_intact()
    assert np.isnan(out.array[..., :shift].astype(np.float32)).all()
    assert_within_budget(case, result.astype(DTYPES[case.dtype]), lse.array.copy())
    return report


def each(names, values):
    return pytest.mark.parametrize(names, values)


@each("head_dim", range(8, 129, 8))
def test_head_dims(head_dim):
    """A way for each, by turns; what is in the lines past the head dim differs from dim to dim."""
    number = head_dim // 8
    case = dataclasses.replace(BASE, head_dim=head_dim, seed=head_dim)
    check(case, ROCM[number // 2 % 2], MEMORIES[number % 2], **WAYS[list(WAYS)[number % 6]])


@each("way", list(WAYS)[:4])
def test_numbers_of_rows(way):
    for number, rows in enumerate((1, 2, 8, 31, 32, 33, 65, 257)):
        case = dataclasses.replace(BASE, seqlen_q=rows, batch=1, heads=2, kv_heads=1, seed=rows)
        check(case, memory=MEMORIES[number % 2], **WAYS[way])


@each("way", WAYS)
def test_an_output_at_a_multiple_of_four_elements(way):
    check(BASE, shift=4, **WAYS[way])


@each("way", list(WAYS)[::2])
def test_a_query_that_is_repeated(way):
    case = dataclasses.replace(BASE, causal=False)
    q = case.arrays()[0]
    row = Fenced(q[:, :1])
    repeated = np.broadcast_to(row.array, q.shape)

    class Repeated(Case):
        def arrays(self):
            return [np.ascontiguousarray(repeated), *case.arrays()[1:]]

    check(Repeated(*dataclasses.astuple(case)), q=repeated, **WAYS[way])


@each("scale", [0.0, -0.125, -1.0])
@each("way", WAYS)
def test_scales_that_go_into_the_query(way, scale):
    check(dataclasses.replace(BASE, scale=scale, head_dim=72), **WAYS[way])


def test_whole_lines_are_moved():
    """A request takes eight lines of memory or less, where lanes of their own take 32."""
    case = Case(256, 128, heads=1, kv_heads=1, head_dim=128)
    report = check(case, **WAYS["through LDS"])
    assert report.count("buffer_store_dwordx4") == 8 * 8
    assert report.count("global_load_*") == report.count("global_store_dwordx*") == 0

"""The choice of a kernel for a problem."""

import dataclasses

import numpy as np
import pytest
from helpers.problems import DTYPES

from rocke_cupy import select
from rocke_cupy.kernels.variant import KernelVariant
from rocke_cupy.rules.call import Problem
from rocke_cupy.rules.masks import UNLIMITED, Masks


def problem(masks=(UNLIMITED, UNLIMITED, False), **changes):
    fields = dict(
        batch=2, seqlen_q=4096, seqlen_kv=4096, num_query_heads=8, num_kv_heads=2, head_dim=64,
        out_dtype=DTYPES["bf16"], compute_dtype=DTYPES["bf16"], scale=0.125, masks=Masks(*masks),
    )  # fmt: skip
    return Problem(**{**fields, **changes})


@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ((UNLIMITED, UNLIMITED, False), dict(causal=False, sliding_window=0, window_right=-1)),
        ((UNLIMITED, 0, False), dict(causal=True, sliding_window=0, window_right=-1)),
        ((0, 0, False), dict(causal=True, sliding_window=1, window_right=-1)),
        ((4, 7, False), dict(causal=False, sliding_window=5, window_right=7)),
        ((UNLIMITED, -9, True), dict(causal=True, sliding_window=0, window_right=-1)),
        ((-9, 12, True), dict(causal=False, sliding_window=1, window_right=12)),
        ((UNLIMITED, 7, True), dict(sliding_window=0, window_right=7, causal_alignment="top_left")),
    ],
)
def test_masks_become_fields(masks, expected):
    chosen = select.select(problem(masks))
    assert {name: getattr(chosen, name) for name in expected} == expected


def test_wide_inputs_ask_for_a_float32_result():
    assert not select.select(problem()).float32_out
    assert select.select(problem(out_dtype=np.dtype(np.float32))).float32_out
    assert select.select(problem(compute_dtype=DTYPES["fp16"])).dtype == "fp16"


@pytest.mark.parametrize(
    ("seqlen_q", "heads", "kv_heads", "packs"),
    [
        (1, 8, 1, True),  # 8 rows in one block in place of 8 blocks
        (1, 8, 8, False),
        (100, 8, 4, True),  # 200 rows
        (256, 8, 2, False),  # full blocks either way
        (257, 4, 1, True),  # 1028 rows: 5 blocks in place of 8
        (4096, 8, 1, False),
    ],
)
def test_query_heads_are_packed_when_that_saves_blocks(seqlen_q, heads, kv_heads, packs):
    case = problem(seqlen_q=seqlen_q, num_query_heads=heads, num_kv_heads=kv_heads)
    assert select.packs_heads(case) == packs


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (dict(batch=1, seqlen_q=1, seqlen_kv=65_536, num_kv_heads=8), 32),
        (dict(batch=1, seqlen_q=1, seqlen_kv=4096, num_kv_heads=8), 4),
        (dict(batch=1, seqlen_q=1, seqlen_kv=1000, num_kv_heads=8), 1),
        (dict(batch=64, seqlen_q=1, seqlen_kv=65_536, num_kv_heads=8), 1),
        (dict(batch=16, seqlen_q=1, seqlen_kv=65_536, num_kv_heads=8), 2),
        (dict(batch=1, seqlen_q=8192, seqlen_kv=65_536, num_kv_heads=8), 1),
        (dict(batch=1, seqlen_q=1, seqlen_kv=65_536, varlen=True), 1),
        (dict(batch=1, seqlen_q=1, seqlen_kv=65_536, masks=(500, 0, False)), 1),
    ],
)
def test_keys_are_split_when_compute_units_would_idle(changes, expected):
    case = problem(**changes)
    assert select.splits(case, select.packs_heads(case)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (dict(batch=32, num_query_heads=12, num_kv_heads=12, seqlen_q=128), 128),  # half empty
        (dict(batch=32, num_query_heads=12, num_kv_heads=12, seqlen_q=129), 256),
        (dict(batch=2, num_query_heads=32, num_kv_heads=32, seqlen_q=512), 128),  # 256 workgroups
        (dict(batch=2, num_query_heads=32, num_kv_heads=32, seqlen_q=513), 256),
        (dict(batch=1, num_query_heads=32, num_kv_heads=8, seqlen_q=1024, head_dim=128), 128),
        (dict(batch=1, num_query_heads=32, num_kv_heads=8, seqlen_q=1024, head_dim=136), 256),
        (dict(batch=64, num_query_heads=8, num_kv_heads=1, seqlen_q=1), 128),
        # Cut in two, the keys keep all compute units busy already.
        (dict(batch=2, num_query_heads=32, num_kv_heads=32, seqlen_q=512, seqlen_kv=4096), 256),
    ],
)
def test_workgroups_are_small_when_compute_units_would_idle(changes, expected):
    case = problem(**{"seqlen_kv": changes["seqlen_q"], **changes})
    assert select.select(case).block_m == expected


@pytest.mark.parametrize("head_dim", [40, 64, 128])
@pytest.mark.parametrize("masks", [(UNLIMITED, 0, False), (7, 9, True)])
def test_shapes_alone_select_few_binaries(head_dim, masks):
    binaries = set()
    for batch in (1, 7, 300):
        for seqlen_q in (1, 100, 257, 5000):
            for seqlen_kv in (0, 1, 5000, 100_000):
                for heads in ((8, 8), (8, 1), (6, 2)):
                    for wide in (False, True):
                        case = problem(
                            masks, batch=batch, seqlen_q=seqlen_q, seqlen_kv=seqlen_kv,
                            num_query_heads=heads[0], num_kv_heads=heads[1], head_dim=head_dim,
                        )  # fmt: skip
                        binaries.add(KernelVariant.of(select.select(case, wide_kv=wide)))
    listed = select.variants_of_shape(select.select(problem(masks, head_dim=head_dim)))
    assert len(listed) == len({KernelVariant.of(one) for one in listed}) == 16
    possible = {KernelVariant.of(one) for one in listed}
    # A narrow window leaves too few keys to split.
    assert binaries == {one for one in possible if not (one.left_bound and one.split_kv)}


def test_packed_sequences_select_no_split_binaries():
    case = problem(batch=1, seqlen_q=1, seqlen_kv=100_000, varlen=True)
    listed = select.variants_of_shape(select.select(case))
    assert len(listed) == 8
    assert {one.num_splits for one in listed} == {1}


def test_the_choice_is_a_pure_function():
    case = problem()
    before = dataclasses.replace(case)
    assert select.select(case) == select.select(case)
    assert case == before

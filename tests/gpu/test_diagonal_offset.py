"""`diagonal_offset`: parts of a longer sequence, and diagonals that lie anywhere."""

import numpy as np
import pytest
from helpers.gpu import assert_parity, random
from helpers.problems import Case

import rocke_cupy

OFFSETS = (-(2**29), -65, 1, 130, 2**29)
CASES = [
    Case(300, 200, heads=1, kv_heads=1, causal=True, alignment="top_left"),
    Case(70, 261, heads=2, kv_heads=1, causal=True, amplitude=8),
    Case(257, 190, heads=1, kv_heads=1, window=(40, 9), dtype="fp16"),
    Case(40, 140, heads=1, kv_heads=1, window=(70, -1), kv_lens=(100,), head_dim=40),
    Case(40, 150, heads=1, kv_heads=1, causal=True, window=(20, 0), head_dim=192),
    Case(50, 60, heads=1, kv_heads=1),  # no diagonal: the offset changes nothing
]


def moved(case, offset):
    return Case(**{**vars(case), "offset": offset})


@pytest.mark.gpu
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_diagonal_is_where_the_offset_puts_it(case, offset, cp):
    assert_parity(moved(case, offset), cp)


@pytest.mark.gpu
@pytest.mark.parametrize("offset", [-700, -20, 300, 900])
def test_split_keys_have_the_same_diagonal(offset, cp):
    case = Case(5, 700, heads=4, kv_heads=2, window=(400, 30), alignment="top_left", offset=offset)
    assert_parity(case, cp, num_splits=3)


@pytest.mark.parametrize("library", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("masks", [dict(causal=True), dict(window_size=(33, 20))])
def test_parts_of_a_sequence_merge_into_the_whole(library, masks, rng):
    xp = pytest.importorskip(library)
    q, k, v = (xp.asarray(random(rng, 1, 150, 2, 64, dtype=np.float16)) for _ in "qkv")
    whole, lse = rocke_cupy.attention(q, k, v, return_lse=True, **masks)
    q_start = 100
    parts = []
    for k_start, k_end in ((0, 40), (40, 110), (110, 150)):
        rows = q[:, q_start:]
        parts.append(
            rocke_cupy.attention(
                rows, k[:, k_start:k_end], v[:, k_start:k_end], causal_alignment="top_left",
                diagonal_offset=q_start - k_start, return_lse=True,
                out=xp.empty(rows.shape, np.float32), **masks,
            )
        )  # fmt: skip
    merged, merged_lse = rocke_cupy.merge_states(*zip(*parts, strict=True))
    xp.testing.assert_allclose(merged, whole[:, q_start:].astype(np.float32), atol=1e-3)
    xp.testing.assert_allclose(merged_lse, lse[:, :, q_start:], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("library", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_packed_sequences_have_it_each(library, rng):
    xp = pytest.importorskip(library)
    q, k, v = (xp.asarray(random(rng, 90, 2, 64, dtype=np.float16)) for _ in "qkv")
    starts = [0, 20, 20, 85]
    packed = rocke_cupy.attention_varlen(q, k, v, starts, starts, causal=True, diagonal_offset=-3)
    for first, end in ((0, 20), (20, 85)):
        alone = rocke_cupy.attention(
            *(x[None, first:end] for x in (q, k, v)), causal=True, diagonal_offset=-3
        )
        xp.testing.assert_array_equal(packed[first:end], alone[0])

"""From a problem to the kernel that shall solve it: pure functions, with their reasons.

Only four choices depend on a shape, so for one dtype, head dim and mask at most sixteen binaries
exist, whatever is asked for: query heads packed or not, keys split or not, keys of a head within
2 GiB or not, workgroups of 256 or of 128 rows. `rocke_cupy.compile` builds them.
"""

from __future__ import annotations

import itertools

from .arch import COMPUTE_UNITS
from .rules.call import Problem
from .rules.dtypes import SHORT_NAMES
from .rules.masks import UNLIMITED
from .rules.parts import MAX_PARTS
from .spec import BLOCK_M, MAX_PIPELINED_HEAD_SIZE, SMALL_BLOCK_M, AttentionDenseSpec

SHAPE_CHOICES = {
    "pack_gqa": (False, True),
    "num_splits": (1, 2),
    "wide_kv": (False, True),
    "block_m": (BLOCK_M, SMALL_BLOCK_M),
}
"""What a shape may change, with one value for each binary: all numbers of splits share one."""

MIN_KEYS_PER_SPLIT = 1024
"""A split costs a pass over its partial results; with 16 tiles of keys it is worth one."""


def select(problem: Problem, *, wide_kv: bool = False) -> AttentionDenseSpec:
    """Return the spec for a problem.

    Parameters
    ----------
    problem : Problem
        A checked call with at least one output element.
    wide_kv : bool
        The keys of one head span 2 GiB or more.
    """
    masks = problem.masks
    # A binary has a bound or none; where it lies, negative too, it is told at run time.
    causal = masks.right <= 0
    pack_gqa = packs_heads(problem)
    parts = splits(problem, pack_gqa)
    return AttentionDenseSpec(
        batch=problem.batch,
        seqlen_q=problem.seqlen_q,
        # A spec has at least one key; the kernel gets the true number at run time.
        seqlen_kv=max(problem.seqlen_kv, 1),
        num_query_heads=problem.num_query_heads,
        num_kv_heads=problem.num_kv_heads,
        # Arrays of another head dim are padded with zeros on the way.
        head_size=-(-problem.head_dim // 8) * 8,
        causal=causal,
        dtype=SHORT_NAMES[problem.compute_dtype],
        sliding_window=0 if masks.left >= UNLIMITED else max(masks.left, 0) + 1,
        # All lengths come out of one binary; the field only lifts the spec's limits on them.
        ragged=True,
        varlen=problem.varlen,
        causal_alignment="top_left" if masks.top_left else "bottom_right",
        window_right=-1 if causal or masks.right >= UNLIMITED else masks.right,
        key_lengths=problem.key_lengths,
        # Parts are merged before their one rounding.
        float32_out=problem.out_dtype != problem.compute_dtype or parts > 1,
        num_splits=parts,
        pack_gqa=pack_gqa,
        # One kv head's blocks stay on one die, whose L2 then holds its keys, and the long rows
        # of a causal triangle start first, so that none is left at the end.
        work_order="xcd",
        wide_kv=wide_kv,
        block_m=rows_of_block(problem, pack_gqa, parts),
    )


def rows_of_block(problem: Problem, pack_gqa: bool, parts: int) -> int:
    """Return how many query rows a workgroup shall take.

    A workgroup of 128 rows that has a compute unit to itself starts and ends sooner than one of
    256, and is 7 to 25 % faster on the timing model. Two side by side are no faster than one of
    256 rows: the same at 64 columns, half as long again at 128. So 128 it is if each finds a
    compute unit of its own, or if 256 rows would make no fewer workgroups: the second half of each
    would be empty.
    """
    if problem.head_dim > MAX_PIPELINED_HEAD_SIZE:
        return BLOCK_M
    group = problem.num_query_heads // problem.num_kv_heads if pack_gqa else 1
    rows = problem.seqlen_q * group
    small, large = -(-rows // SMALL_BLOCK_M), -(-rows // BLOCK_M)
    workgroups = small * (problem.num_query_heads // group) * problem.batch * parts
    return SMALL_BLOCK_M if small == large or workgroups <= COMPUTE_UNITS else BLOCK_M


def packs_heads(problem: Problem) -> bool:
    """Return whether the query heads of a group shall share the rows of a tile.

    One decoded token of eight heads then fills eight rows of one block, not one row of eight. A
    tile of packed rows spans fewer tokens, so its mask is as cheap; but each row's address is
    computed, which is worth it only if blocks are saved, a quarter of them at least.
    """
    group = problem.num_query_heads // problem.num_kv_heads
    if group == 1:
        return False
    packed = -(-problem.seqlen_q * group // BLOCK_M)
    separate = -(-problem.seqlen_q // BLOCK_M) * group
    return 4 * packed <= 3 * separate


def splits(problem: Problem, pack_gqa: bool) -> int:
    """Return how many parts the keys are cut into, so that all compute units have work.

    Packed sequences are split only if the caller says so: their lengths differ, and the longest
    says little.
    """
    if problem.num_splits is not None:
        return problem.num_splits
    if problem.varlen:
        return 1
    group = problem.num_query_heads // problem.num_kv_heads if pack_gqa else 1
    blocks = -(-problem.seqlen_q * group // BLOCK_M)
    items = blocks * (problem.num_query_heads // group) * problem.batch
    visible = min(problem.seqlen_kv, problem.masks.left + problem.masks.right + BLOCK_M)
    wanted = COMPUTE_UNITS // items
    return max(1, min(wanted, visible // MIN_KEYS_PER_SPLIT, MAX_PARTS))


def variants_of_shape(spec: AttentionDenseSpec) -> list[AttentionDenseSpec]:
    """Return one spec for each binary that other shapes could select in place of ``spec``'s."""
    return [
        spec.replace(
            pack_gqa=pack_gqa,
            num_splits=num_splits,
            float32_out=spec.float32_out or num_splits > 1,
            wide_kv=wide_kv,
            block_m=block_m,
        )
        for pack_gqa, num_splits, wide_kv, block_m in itertools.product(*SHAPE_CHOICES.values())
        if (num_splits == 1 or not spec.varlen) and (block_m == BLOCK_M or spec.pipelined)
    ]

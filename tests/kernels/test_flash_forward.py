"""Every variant of the attention kernel, alone and in pairs, on the emulator.

Each variant changes the compiled code, so each is a compilation of its own: the pairs are chosen
such that every two variants meet at least once, with lengths around the edges of tiles and blocks.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from helpers.budget import assert_within_budget
from helpers.compiled import assert_nothing_spilled, resources
from helpers.emulated import attend, spec_for
from helpers.problems import Case, with_options

from rocke_cupy import build_attention_dense

ROCM = ("7.0", "7.14")
MEMORIES = ("eager", "lazy")

VARIANTS = {
    "plain": dict(),
    "head_size 128": dict(head_dim=128),
    "fp16": dict(dtype="fp16"),
    "full": dict(causal=False),
    "window": dict(window=(40, 0)),
    "window without causal": dict(window=(30, 50), causal=False),
    "top_left": dict(alignment="top_left"),
    "kv_lens": dict(kv_lens=(200, 77)),
    "persistent qb_major": dict(persistent=True, num_persistent=5, persist_decode="qb_major"),
    "persistent hkv_major": dict(persistent=True, num_persistent=3, persist_decode="hkv_major"),
    "persistent interleave": dict(
        persistent=True, num_persistent=40, persist_decode="qb_major", interleave=True
    ),
    "xcd order": dict(work_order="xcd"),
    "no lazy_rescale": dict(lazy_rescale=False),
    "block_n 128": dict(block_n=128),
    "block_n 128, head_size 128": dict(block_n=128, head_dim=128),
    "block_m 128": dict(block_m=128),
    "block_m 128, head_size 128": dict(block_m=128, head_dim=128),
    "float32 out": dict(float32_out=True),
    "packed heads": dict(pack_gqa=True),
    "wide": dict(wide_kv=True),
    "packed softmax": dict(packed_softmax=True),
    "raised priority": dict(raised_priority=True),
    # The scores are in powers of two: ln(2) makes natural ones of them, in the LSE.
    "scaled query": dict(scaled_query=True, scale=math.log(2)),
}

BASE = Case(260, 321, heads=6, kv_heads=2, batch=2, causal=True)

EXCLUSIVE = [
    {"persistent qb_major", "persistent hkv_major", "persistent interleave", "xcd order"},
    {"full", "window", "window without causal"},
    {"block_m 128, head_size 128", "block_n 128", "block_n 128, head_size 128"},
    {"block_m 128", "block_n 128, head_size 128"},
]


def problem(names, **changes):
    """Return the case and the spec's fields of some variants together."""
    options = {k: v for name in names for k, v in VARIANTS[name].items()}
    return with_options(BASE, {**options, **changes})


def meet(pair):
    return not any(len(set(pair) & group) > 1 for group in EXCLUSIVE)


def check(names, rocm, memory, schedule="random", **changes):
    case, options = problem(names, **changes)
    out, lse, report = attend(
        case, rocm=rocm, memory=memory, schedule=schedule, seed=case.seed, **options
    )
    if options.get("float32_out"):
        out = out.astype(case.arrays()[0].dtype)
    assert_within_budget(case, out, lse)
    return report


@pytest.mark.parametrize("rocm", ROCM)
@pytest.mark.parametrize("name", VARIANTS)
def test_variant(name, rocm):
    assert_nothing_spilled(source(name), rocm)
    kernel = resources(source(name), rocm)
    case, options = problem([name])
    assert kernel.allocated_vgprs <= 256
    assert kernel.lds_size == spec_for(case, **options).lds_bytes
    for memory, amplitude in itertools.product(MEMORIES, (1, 8)):
        check([name], rocm, memory, amplitude=amplitude)


def source(*names):
    case, options = problem(names)
    return build_attention_dense(spec_for(case, **options))


PAIRS = [pair for pair in itertools.combinations(VARIANTS, 2) if meet(pair) and "plain" not in pair]
CHOSEN = PAIRS[:: len(PAIRS) // 12]
"""Some of the pairs, which is what the time of a quick run allows; the others are slow."""


@pytest.mark.parametrize(
    "pair",
    [pytest.param(p, marks=[] if p in CHOSEN else pytest.mark.slow) for p in PAIRS],
    ids=" + ".join,
)
def test_pair_of_variants(pair):
    number = PAIRS.index(pair)
    rocm, memory = ROCM[number % 2], MEMORIES[number // 2 % 2]
    assert_nothing_spilled(source(*pair), rocm)
    check(pair, rocm, memory, amplitude=(1, 8)[number % 2], seed=number)


LENGTHS = (1, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 513)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head_dim", [64, 128])
def test_lengths(head_dim, causal):
    # One binary for all: each length of keys with a length of queries from elsewhere in the list.
    for number, seqlen_kv in enumerate(LENGTHS):
        seqlen_q = LENGTHS[(5 * number + 3) % len(LENGTHS)]
        case = Case(
            seqlen_q, seqlen_kv, heads=1, kv_heads=1, head_dim=head_dim, causal=causal, seed=number
        )
        out, lse, _ = attend(case, memory=MEMORIES[number % 2])
        assert_within_budget(case, out, lse)


@pytest.mark.parametrize("lazy_rescale", [True, False])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_large_scores(dtype, lazy_rescale):
    for amplitude in (1, 8, 64):
        case = Case(64, 320, heads=1, kv_heads=1, dtype=dtype, amplitude=amplitude)
        out, lse, _ = attend(case, lazy_rescale=lazy_rescale)
        assert_within_budget(case, out, lse)


def test_anchor_moves_in_the_last_tile():
    # The factor that a moved anchor leaves behind must still reach the output.
    case = Case(32, 256, heads=1, kv_heads=1, seed=3)
    q, k, v = case.arrays()
    k[:, -64:] *= 30

    class Raised(Case):
        def arrays(self):
            return [q, k, v]

    raised = Raised(32, 256, heads=1, kv_heads=1)
    out, lse, _ = attend(raised, arrays=(q, k, v))
    assert_within_budget(raised, out, lse)


def test_repeats_are_bitwise_equal():
    case = Case(200, 300, heads=2, kv_heads=1, causal=True, amplitude=8)
    first, first_lse, _ = attend(case, schedule="lockstep")
    for seed in range(20):
        out, lse, _ = attend(case, schedule="random", seed=seed, quantum=1 + seed)
        assert out.tobytes() == first.tobytes()
        assert lse.tobytes() == first_lse.tobytes()


def tiles_visited(case, **options):
    """Return the key tiles of each workgroup of a one-head problem."""
    _, _, report = attend(case, fenced=False, **options)
    mfma_per_tile = 2 * 2 * 4 * 8  # Q K and P V, 2 x 4 MFMAs each at head dim 64, 8 waves
    return report.count("v_mfma*") / mfma_per_tile


@pytest.mark.parametrize("window", [1, 64, 65, 200])
def test_window_prunes_the_key_loop(window):
    case = Case(1024, 1024, heads=1, kv_heads=1, causal=True, window=(window - 1, 0))
    expected = 0
    for block in range(4):
        first = max(block * 256 - (window - 1), 0) // 64
        tiles = (block * 256 + 255) // 64 + 1 - first
        expected += tiles + tiles % 2  # an odd number is rounded up to the two slots
    assert tiles_visited(case) == expected
    assert tiles_visited(dataclasses.replace(case, window=(-1, -1))) == 4 + 8 + 12 + 16


def test_nan_of_other_entries_and_heads_stays_out():
    case = Case(100, 130, heads=4, kv_heads=2, batch=3, causal=True)
    q, k, v = case.arrays()
    clean, _, _ = attend(case, arrays=(q, k, v))
    for array, (b, h) in itertools.product((k, v), ((0, 0), (1, 1), (2, 0))):
        dirty = array.copy()
        dirty[b, :, h] = np.nan
        out, _, _ = attend(case, arrays=(q, dirty, v) if array is k else (q, k, dirty))
        same = np.ones((3, 4), bool)
        same[b, 2 * h : 2 * h + 2] = False
        for entry, head in np.argwhere(same):
            assert out[entry, :, head].tobytes() == clean[entry, :, head].tobytes()
        assert np.isnan(out[b, -1, 2 * h].astype(np.float32)).all()

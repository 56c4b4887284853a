"""The kernels that take a tile in two blocks of 32 keys: that of head dims past 128, which looks a
block ahead, and the streaming one, of any head dim by choice.

The variants are parts that all kernels share and that are tested in pairs with the pipelined one;
here each is met once, and some of them all at once.
"""

import dataclasses

import numpy as np
import pytest
from helpers.budget import assert_within_budget
from helpers.compiled import assert_nothing_spilled, compile_source, resources
from helpers.emulated import attend, launch, spec_for
from helpers.problems import DTYPES, Case, Given, with_options

from rocke_cupy import build_attention_dense
from rocke_cupy.emulator import lint, load

ROCM = ("7.0", "7.14")
MEMORIES = ("eager", "lazy")

VARIANTS = {
    "plain": dict(),
    "fp16": dict(dtype="fp16"),
    "full": dict(causal=False),
    "window": dict(window=(40, 0)),
    "window without causal": dict(window=(30, 50), causal=False),
    "top_left": dict(alignment="top_left"),
    "kv_lens": dict(kv_lens=(140, 77)),
    "persistent": dict(persistent=True, num_persistent=3),
    "xcd order": dict(work_order="xcd"),
    "no lazy_rescale": dict(lazy_rescale=False),
    "float32 out": dict(float32_out=True),
    "packed heads": dict(pack_gqa=True),
    "wide keys": dict(wide_kv=True),
}

BASE = Case(140, 161, heads=4, kv_heads=2, batch=2, causal=True, head_dim=256)


def check(case, rocm="7.0", **options):
    out, lse, report = attend(case, rocm=rocm, schedule="random", seed=case.seed, **options)
    assert_within_budget(case, out.astype(DTYPES[case.dtype]), lse)
    return report


def half_slow(choices, quick):
    """Mark all choices but some as slow: each is a binary of its own to compile."""
    return [pytest.param(c, marks=[] if c in quick else pytest.mark.slow) for c in choices]


BINARIES = [f"{name} on {rocm}" for name in VARIANTS for rocm in ROCM]


both = pytest.mark.parametrize("streaming", [False, True], ids=["wide", "streaming"])


@both
@pytest.mark.parametrize("rocm", ROCM)
def test_transposed_reads_have_all_lanes(rocm, streaming):
    _, code = compile_source(build_attention_dense(spec_for(BASE, streaming=streaming)), rocm)
    assert any("_tr_" in i.mnemonic for i in load(code).instructions)
    assert [finding for finding in lint.check(code) if finding.rule == "R30"] == []


@pytest.mark.parametrize("binary", half_slow(BINARIES, BINARIES[::3]))
@pytest.mark.parametrize("head_dim", [192, 256])
def test_variant_of_a_wide_head(head_dim, binary):
    check_variant(head_dim, binary, vgprs=256)


@pytest.mark.parametrize("binary", half_slow(BINARIES, BINARIES[1::3]))
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_variant_that_streams(head_dim, binary):
    check_variant(head_dim, binary, vgprs=256 if head_dim > 128 else 152, streaming=True)


def check_variant(head_dim, binary, vgprs, **options):
    name, rocm = binary.split(" on ")
    case, of_variant = with_options(dataclasses.replace(BASE, head_dim=head_dim), VARIANTS[name])
    options = {**options, **of_variant}
    spec = spec_for(case, **options)
    source = build_attention_dense(spec)
    assert_nothing_spilled(source, rocm)
    assert resources(source, rocm).vgprs <= vgprs
    assert resources(source, rocm).lds_size == spec.lds_bytes
    for number, memory in enumerate(MEMORIES):
        amplitude = (1, 8)[(number + ROCM.index(rocm)) % 2]
        check(dataclasses.replace(case, amplitude=amplitude), rocm, memory=memory, **options)


@pytest.mark.parametrize("head_dim", half_slow(range(136, 257, 8), (136, 160, 200, 232, 248)))
def test_wide_head_dim(head_dim):
    check_head_dim(head_dim)


@pytest.mark.parametrize("head_dim", half_slow(range(8, 257, 8), (8, 24, 40, 72, 104, 136, 256)))
def test_head_dim_that_streams(head_dim):
    check_head_dim(head_dim, streaming=True)


def check_head_dim(head_dim, **options):
    # Columns past the head dim are the next head's: it holds NaN there.
    case = Case(33, 70, heads=2, kv_heads=2, head_dim=head_dim, causal=head_dim % 16 == 0)
    rocm = ROCM[head_dim // 8 % 2]
    assert_nothing_spilled(build_attention_dense(spec_for(case, **options)), rocm)
    q, k, v = case.arrays()
    out, lse, _ = attend(case, rocm, arrays=(q, k, v), **options)
    assert_within_budget(case, out, lse)
    k[:, :, 1], v[:, :, 1] = np.nan, np.nan
    beside_nan, _, _ = attend(case, rocm, arrays=(q, k, v), **options)
    np.testing.assert_array_equal(beside_nan[:, :, 0].view(np.uint16), out[:, :, 0].view(np.uint16))


LENGTHS = (1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 321)


@both
@pytest.mark.parametrize("causal", [False, True])
def test_lengths(causal, streaming):
    for number, seqlen_kv in enumerate(LENGTHS):
        seqlen_q = LENGTHS[(5 * number + 3) % len(LENGTHS)]
        check(
            Case(
                seqlen_q, seqlen_kv, heads=1, kv_heads=1, head_dim=192, causal=causal, seed=number
            ),
            memory=MEMORIES[number % 2],
            streaming=streaming,
        )


@both
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("amplitude", [1, 8, 64])
@pytest.mark.parametrize("lazy_rescale", [True, False])
def test_large_scores(amplitude, lazy_rescale, dtype, streaming):
    case = Case(33, 200, heads=1, kv_heads=1, head_dim=256, amplitude=amplitude, dtype=dtype)
    check(case, lazy_rescale=lazy_rescale, streaming=streaming)


@both
@pytest.mark.parametrize(
    "raised", [slice(224, 256), slice(96, 128), slice(40, 41), slice(255, 256)]
)
def test_anchor_moves_in_any_block_of_keys(raised, streaming):
    case = Case(32, 256, heads=1, kv_heads=1, head_dim=192)
    q, k, v = case.arrays()
    k[:, raised] *= 30
    out, lse, _ = attend(case, arrays=(q, k, v), streaming=streaming)
    assert_within_budget(Given(case, q, k, v), out, lse)


@both
@pytest.mark.parametrize("rocm", ROCM)
@pytest.mark.parametrize("low", range(0, 256, 32))
def test_a_score_jumps_by_almost_all_of_the_range(low, rocm, streaming):
    """All keys have scores near minus 2**126, and one of each later block a little more."""
    case = Case(32, 256, heads=1, kv_heads=1, head_dim=192, scale=1.0)
    q, k, v = (np.zeros_like(case.arrays()[0]), np.zeros_like(case.arrays()[1]), case.arrays()[2])
    q[..., 0] = 2.0**63
    k[..., 0] = -(2.0**63)
    k[:, low + 7, :, 0] = 2.0**63
    out, lse, _ = attend(case, rocm, arrays=(q, k, v), streaming=streaming)
    assert_within_budget(Given(case, q, k, v), out, lse)


@both
def test_rows_that_see_no_key_until_late(streaming):
    """The first visited tiles are hidden from most rows of a block."""
    case = Case(256, 700, heads=1, kv_heads=1, head_dim=192, window=(20, 3), amplitude=8)
    check(case, streaming=streaming)
    check(dataclasses.replace(case, seqlen_kv=90), streaming=streaming)


@both
def test_repeats_are_bitwise_equal(streaming):
    case = Case(70, 200, heads=1, kv_heads=1, head_dim=256, amplitude=8)
    first, first_lse, _ = attend(case, schedule="lockstep", streaming=streaming)
    for seed in range(10):
        out, lse, _ = attend(
            case, schedule="random", seed=seed, quantum=1 + seed, streaming=streaming
        )
        assert out.tobytes() == first.tobytes()
        assert lse.tobytes() == first_lse.tobytes()


@both
@pytest.mark.parametrize("head_dim", [192, 256])
def test_reads_of_keys_and_values_meet_no_bank_conflict(head_dim, streaming):
    case = Case(64, 128, heads=1, kv_heads=1, head_dim=head_dim)
    _, _, report = attend(case, fenced=False, streaming=streaming)
    assert report.bank_ideal.sum() > 0
    assert report.bank_extra.sum() == 0


@both
@pytest.mark.parametrize("rocm", ROCM)
def test_all_at_once_on_packed_sequences(rocm, streaming):
    """Packed sequences and heads, a window, persistent workgroups, keys that may be far apart."""
    rng = np.random.default_rng(5)
    starts_q, starts_k = np.array([0, 37, 37, 130], np.int32), np.array([0, 90, 95, 260], np.int32)
    shape_q, shape_k = (140, 4, 256), (270, 2, 256)
    q, k, v = (
        rng.standard_normal(s).astype(np.float32).astype(np.float16)
        for s in (shape_q, shape_k, shape_k)
    )
    case = Case(140, 270, heads=4, kv_heads=2, head_dim=256, dtype="fp16", window=(60, 3), batch=4)
    spec = spec_for(
        case, varlen=True, pack_gqa=True, wide_kv=True, persistent=True, num_persistent=5,
        streaming=streaming,
    )  # fmt: skip
    assert_nothing_spilled(build_attention_dense(spec), rocm)
    out, lse = np.full(shape_q, np.nan, np.float16), np.full((4, 140), np.nan, np.float32)
    launch(spec, q, k, v, out, lse, case, rocm=rocm, cu_seqlens=(starts_q, starts_k))
    for i in range(3):
        rows, keys = slice(*starts_q[i : i + 2]), slice(*starts_k[i : i + 2])

        class Sequence(Case):
            def arrays(self, rows=rows, keys=keys):
                return [q[None, rows], k[None, keys], v[None, keys]]

        one = Sequence(
            rows.stop - rows.start, keys.stop - keys.start, heads=4, kv_heads=2, head_dim=256,
            dtype="fp16", window=(60, 3),
        )  # fmt: skip
        assert_within_budget(one, out[None, rows], lse[None, :, rows])
    assert not out[130:].any()
    assert np.isneginf(lse[:, 130:]).all()

"""The spec: the seed's fields, defaults, refusals, derived values and names, and what was added."""

import dataclasses

import numpy as np
import pytest
from helpers.specs import NEW_FIELDS, spec

from rocke_cupy import (
    AttentionDenseSpec,
    attention_dense_block,
    attention_dense_grid,
    attention_dense_signature,
    build_attention_dense,
    supports_attention_dense,
)
from rocke_cupy.kernels.variant import KernelVariant
from rocke_cupy.spec import BLOCK_M

SEED_FIELDS = {
    "batch": dataclasses.MISSING,
    "seqlen_q": dataclasses.MISSING,
    "seqlen_kv": dataclasses.MISSING,
    "num_query_heads": dataclasses.MISSING,
    "num_kv_heads": dataclasses.MISSING,
    "head_size": dataclasses.MISSING,
    "causal": True,
    "dtype": "bf16",
    "sliding_window": 0,
    "ragged": False,
    "varlen": False,
    "block_n": 64,
    "waves_per_eu": 2,
    "persistent": False,
    "num_persistent": 256,
    "interleave": False,
    "persist_decode": "auto",
    "lazy_rescale": True,
}


def test_fields_start_with_the_seeds():
    fields = dataclasses.fields(AttentionDenseSpec)
    assert {f.name: f.default for f in fields[: len(SEED_FIELDS)]} == SEED_FIELDS
    assert [f.name for f in fields[: len(SEED_FIELDS)]] == list(SEED_FIELDS)
    assert all(f.default is not dataclasses.MISSING for f in fields[len(SEED_FIELDS) :])


def test_a_spec_is_frozen_and_hashable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec().batch = 3
    assert len({spec(), spec(), spec(batch=3)}) == 2


REFUSED = [
    (dict(dtype="fp32"), "dtype='fp32' must be one of 'bf16', 'fp16'"),
    (dict(head_size=264), "head_size=264"),
    (dict(head_size=60), "head_size=60"),
    (dict(head_size=0), "head_size=0"),
    (dict(block_n=48), "block_n=48 must be a positive multiple of 32"),
    (dict(block_n=0), "block_n=0 must be a positive multiple of 32"),
    (dict(block_n=-64), "block_n=-64 must be a positive multiple of 32"),
    (dict(block_n=96, seqlen_kv=960), "block_n=96 must divide the 256 query rows"),
    (dict(block_n=192, seqlen_kv=768), "block_n=192 must divide the 256 query rows"),
    (dict(block_n=512), "block_n=512 must divide the 256 query rows"),
    (dict(block_n=256), "block_n=256 with head_size=128 needs 272,384 bytes of LDS.*163,840"),
    (dict(block_n=256, head_size=64), "block_n=256 must be 64 or 128"),
    (dict(block_n=32), "block_n=32 must be 64 or 128"),
    (dict(streaming=True, block_n=128), "block_n=128 must be 64 when streaming"),
    (dict(streaming=True, packed_softmax=True), "packed_softmax=True must be False when streaming"),
    (dict(head_size=136, raised_priority=True), "raised_priority=True must be False when"),
    (dict(head_size=256, scaled_query=True), "scaled_query=True must be False when streaming"),
    (dict(waves_per_eu=4), "144 vector registers alive, waves_per_eu=4 leaves 128"),
    (dict(waves_per_eu=0), "waves_per_eu=0"),
    (dict(seqlen_q=300), "seqlen_q=300 must be a multiple of 256"),
    (dict(seqlen_kv=100), "seqlen_kv=100 must be a multiple of 64"),
    (dict(seqlen_kv=64, block_n=128), "seqlen_kv=64 must be a multiple of 128"),
    (dict(seqlen_q=-256), "seqlen_q=-256"),
    (dict(batch=-1), "batch=-1"),
    (dict(ragged=True, seqlen_q=0), "seqlen_q=0 and seqlen_kv=512 must be positive when ragged"),
    (dict(ragged=True, seqlen_kv=-3), "seqlen_kv=-3 must be positive when ragged"),
    (dict(num_kv_heads=0), "num_kv_heads=0"),
    (dict(num_query_heads=0), "num_query_heads=0"),
    (dict(num_kv_heads=3), "num_query_heads=8 must be a multiple of num_kv_heads=3"),
    (dict(persistent=True, num_persistent=0), "num_persistent=0 must be positive"),
    (dict(persist_decode="row_major"), "persist_decode='row_major' must be one of"),
    (dict(sliding_window=-1), "sliding_window=-1 must be >= 0"),
    (dict(window_right=-2, causal=False), "window_right=-2 must be >= -1"),
    (dict(window_right=3), "window_right=3 must be -1 or 0 when causal"),
    (dict(causal_alignment="center"), "causal_alignment='center' must be one of"),
    (dict(work_order="random"), "work_order='random' must be one of"),
    (dict(work_order="xcd", persistent=True), "work_order='xcd' must be 'grid' when persistent"),
    (dict(num_splits=0), "num_splits=0 must be from 1 to 32"),
    (dict(num_splits=33), "num_splits=33 must be from 1 to 32"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED, ids=lambda value: str(value)[:50])
def test_refusals_name_the_field_the_value_and_the_rule(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        spec(**changes)


TAKEN = [
    dict(ragged=True, varlen=True, seqlen_q=3, seqlen_kv=5),
    dict(ragged=True, sliding_window=100, seqlen_q=999, seqlen_kv=999),
    dict(varlen=True, persistent=True),
    dict(varlen=True, causal=False),
    dict(sliding_window=128, causal=False),
    dict(ragged=True, seqlen_q=1, seqlen_kv=4097),
    dict(sliding_window=1),
    dict(sliding_window=77, block_n=128),
    dict(persistent=True, num_persistent=100_000),
    dict(seqlen_kv=0),
    *(dict(head_size=d) for d in (8, 16, 32, 40, 48, 64, 72, 96, 120, 128, 136, 192, 200, 256)),
    dict(block_n=128),
    dict(window_right=0),
    dict(num_query_heads=15, num_kv_heads=5),
]


@pytest.mark.parametrize("changes", TAKEN, ids=str)
def test_combinations_that_the_seed_refused_are_taken(changes):
    assert supports_attention_dense(spec(**changes)) == (True, "")


@pytest.mark.parametrize(
    ("head_size", "file"), [(128, "flash_forward.hip"), (136, "flash_forward_wide.hip")]
)
def test_each_head_size_has_a_kernel_and_streams_by_choice(head_size, file):
    variants = [
        KernelVariant.of(spec(head_size=head_size, streaming=streaming))
        for streaming in (False, True)
    ]
    assert [v.kernel_file for v in variants] == [
        f"attention/{file}",
        "attention/flash_forward_streaming.hip",
    ]
    assert variants[1].entry == variants[0].entry + "_stream"


def test_num_persistent_matters_only_when_persistent():
    assert spec(num_persistent=0).num_persistent == 0


def test_another_arch_is_not_supported():
    supported, why = supports_attention_dense(spec(), arch="gfx942")
    assert not supported
    assert "gfx942" in why
    with pytest.raises(NotImplementedError, match="gfx942"):
        build_attention_dense(spec(), arch="gfx942")


def test_a_spec_that_was_tampered_with_is_not_supported():
    broken = spec()
    object.__setattr__(broken, "head_size", 100)
    supported, why = supports_attention_dense(broken)
    assert not supported
    assert "head_size=100" in why


def test_derived_values():
    one = spec()
    assert one.num_waves == 8
    assert one.dtype_ir.name == "bfloat16"
    assert spec(dtype="fp16").dtype_ir == np.float16
    assert one.num_queries_per_kv == 4
    assert one.num_query_blocks == 512 // BLOCK_M
    assert one.num_work_items == 2 * 8 * 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (dict(), 134_656),
        (dict(head_size=64), 100_608),
        (dict(head_size=8), 100_608),
        (dict(head_size=72), 134_656),
        (dict(block_n=128, head_size=64), 134_656),
        (dict(block_n=128), 136_192),
        (dict(pack_gqa=True), 68_096),
        (dict(block_m=128), 68_096),
        (dict(block_m=128, head_size=64), 67_328),
        (dict(streaming=True), 68_096),
        (dict(head_size=224), 136_192),
        (dict(head_size=232), 160_768),
        (dict(head_size=256, streaming=True), 136_192),
    ],
)
def test_lds_bytes(changes, expected):
    assert spec(**changes).lds_bytes == expected


def test_small_workgroups_are_refused_where_two_do_not_fit():
    with pytest.raises(ValueError, match="block_m=128 must be 256 with block_n=128 and head_size"):
        spec(block_m=128, block_n=128)
    with pytest.raises(ValueError, match="block_m=128 must be 256 when streaming"):
        spec(block_m=128, head_size=136)
    with pytest.raises(ValueError, match="block_m=64 must be 128 or 256"):
        spec(block_m=64)
    assert spec(block_m=128, block_n=128, head_size=64).num_waves == 4


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # 4 heads a group, 2 blocks, 2 entries: 16 items a kv head.
        (dict(num_persistent=8), "hkv_major"),
        (dict(num_persistent=9), "qb_major"),
        (dict(num_persistent=1, num_kv_heads=8), "qb_major"),
        (dict(num_persistent=8, seqlen_q=257, ragged=True), "hkv_major"),
        (dict(num_persistent=8, persist_decode="qb_major"), "qb_major"),
        (dict(num_persistent=9, persist_decode="hkv_major"), "hkv_major"),
    ],
)
def test_auto_decode_is_hkv_major_when_it_shares_and_balances(changes, expected):
    assert spec(persistent=True, **changes).resolved_persist_decode == expected


@pytest.mark.parametrize(
    ("changes", "order"),
    [
        (dict(), "grid"),
        (dict(work_order="xcd"), "xcd"),
        (dict(interleave=True), "grid"),
        (dict(persistent=True), "qb_major"),
        (dict(persistent=True, interleave=True), "interleave"),
        (dict(persistent=True, num_persistent=8), "hkv_major"),
        (dict(persistent=True, num_persistent=8, interleave=True), "hkv_major"),
    ],
)
def test_work_order(changes, order):
    assert spec(**changes).resolved_work_order == order


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        (dict(), "rocke_attention_dense_d128_hq8_kv2_bn64_bf16_sq512_sk512_causal_lazyrs"),
        (
            dict(causal=False, lazy_rescale=False, dtype="fp16", head_size=64, block_n=128),
            "rocke_attention_dense_d64_hq8_kv2_bn128_fp16_sq512_sk512_full",
        ),
        (
            dict(ragged=True, seqlen_q=300, seqlen_kv=301),
            "rocke_attention_dense_d128_hq8_kv2_bn64_bf16_sq300_sk301_causal_ragged_lazyrs",
        ),
        (
            dict(sliding_window=128, varlen=True),
            "rocke_attention_dense_d128_hq8_kv2_bn64_bf16_sq512_sk512_causal_swa128_varlen_lazyrs",
        ),
        (
            dict(persistent=True, num_persistent=4, interleave=True),
            "rocke_attention_dense_d128_hq8_kv2_bn64_bf16_sq512_sk512_causal_lazyrs_persist4_"
            "hkvmaj_intl",
        ),
        (
            dict(persistent=True),
            "rocke_attention_dense_d128_hq8_kv2_bn64_bf16_sq512_sk512_causal_lazyrs_persist256",
        ),
    ],
)
def test_kernel_name_has_the_seeds_tokens_in_its_order(changes, name):
    assert spec(**changes).kernel_name() == name


def test_kernel_name_tells_new_fields_apart():
    names = {spec(**{field: value}).kernel_name() for field, value in NEW_FIELDS.items()}
    assert len(names | {spec().kernel_name()}) == len(NEW_FIELDS) + 1


@pytest.mark.parametrize(
    ("changes", "grid"),
    [
        (dict(), (2, 8, 2)),
        (dict(seqlen_q=513, ragged=True), (3, 8, 2)),
        (dict(persistent=True), (256, 1, 1)),
        (dict(persistent=True, num_persistent=7), (7, 1, 1)),
        (dict(batch=70_001), (1_120_016, 1, 1)),
        (dict(seqlen_q=1, ragged=True, pack_gqa=True), (1, 2, 2)),
        (dict(num_splits=3), (2, 8, 6)),
    ],
)
def test_grid(changes, grid):
    assert attention_dense_grid(spec(**changes)) == grid


def test_grid_beyond_every_limit_keeps_the_product():
    big = spec(batch=65_536 * 4, seqlen_q=256 * 16, num_query_heads=8)
    grid = attention_dense_grid(big)
    assert grid[0] * grid[1] * grid[2] == big.num_work_items
    assert grid[0] * 512 < 2**32
    assert max(grid[1:]) < 2**16


def test_grid_that_cannot_be_folded_is_refused():
    with pytest.raises(ValueError, match="8,388,617 blocks"):
        attention_dense_grid(spec(batch=8_388_617, seqlen_q=256, num_query_heads=1, num_kv_heads=1))


def test_more_work_than_the_kernel_counts_is_refused():
    with pytest.raises(ValueError, match="2,147,483,648 blocks of work, the kernels count up to"):
        attention_dense_grid(spec(batch=2**27, seqlen_q=512, num_query_heads=8))


def test_block():
    assert attention_dense_block(spec()) == (512, 1, 1)


def test_signature_starts_with_the_seeds_parameters():
    names = [p["name"] for p in attention_dense_signature(spec(varlen=True))]
    assert names[:5] == ["q_ptr", "k_ptr", "v_ptr", "o_ptr", "scale"]
    assert names[5:7] == ["cu_seqlens_q", "cu_seqlens_kv"]
    types = {p["name"]: p["type"] for p in attention_dense_signature(spec(dtype="fp16"))}
    assert types["q_ptr"] == types["o_ptr"] == "ptr<fp16>"
    types = {p["name"]: p["type"] for p in attention_dense_signature(spec(float32_out=True))}
    assert (types["v_ptr"], types["o_ptr"]) == ("ptr<bf16>", "ptr<f32>")

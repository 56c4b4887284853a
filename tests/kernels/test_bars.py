"""The hot loop's bars: what a wave may execute for a tile of 64 keys that needs no mask.

Counted in the code objects of both hipRTC generations; the prologue and epilogue drop out.
"""

import functools
from dataclasses import dataclass

import pytest
from helpers.code_objects import FEATURES
from helpers.specs import spec

from rocke_cupy.tools.grid_time import block_cost
from rocke_cupy.tools.inspection import inspect_kernel

pytestmark = pytest.mark.network


@dataclass(frozen=True)
class Bars:
    """What the loop of one head size may take at most; MFMA, exp and memory exactly."""

    mfma: int
    dma: int
    lds_reads: int
    lds_bytes: int
    valu: int
    cycles: int
    turn_cycles: int
    fixed_cycles: int
    exp: int = 32
    masked_valu: int = 36
    waits: int = 2
    waits_for_all: int = 0
    nop_states: int = 8
    barriers: int = 4
    salu: int = 12


BARS = {
    64: Bars(
        mfma=16,
        dma=2,
        lds_reads=24,
        lds_bytes=100_608,
        valu=54,
        cycles=1_280,
        turn_cycles=10_500,
        fixed_cycles=8_000,
    ),
    128: Bars(
        mfma=32,
        dma=4,
        lds_reads=48,
        lds_bytes=134_656,
        valu=82,
        cycles=2_080,
        turn_cycles=14_500,
        fixed_cycles=10_500,
    ),
}
HEAD_SIZES, DTYPES, ROCMS = tuple(BARS), ("bf16", "fp16"), ("7.0", "7.14")

# Variants of the family may add scalar instructions to the loop, not vector ones.
VARIANTS = {
    "full": dict(causal=False),
    "causal": dict(causal=True),
    "ragged": dict(causal=True, ragged=True, seqlen_q=500, seqlen_kv=700),
    "window": dict(causal=True, sliding_window=256),
    "varlen": dict(causal=True, varlen=True),
    "persistent": dict(causal=True, persistent=True),
}

inspected = functools.cache(inspect_kernel)


def each(names, values):
    return pytest.mark.parametrize(names, values)


@each("rocm", ROCMS)
@each("dtype", DTYPES)
@each("head_size", HEAD_SIZES)
class TestLoop:
    """The main variant: causal attention of a batch."""

    def found(self, head_size, dtype, rocm):
        return inspected(spec(head_size=head_size, dtype=dtype, **VARIANTS["causal"]), rocm)

    def test_vector_instructions(self, head_size, dtype, rocm):
        bars, loop = BARS[head_size], self.found(head_size, dtype, rocm).loop
        assert loop.kinds["valu"] <= bars.valu, loop.mnemonics
        assert loop.kinds["trans"] == bars.exp
        assert loop.kinds["mfma"] == bars.mfma

    def test_memory_instructions(self, head_size, dtype, rocm):
        bars, loop = BARS[head_size], self.found(head_size, dtype, rocm).loop
        assert loop.kinds["dma"] == bars.dma
        assert loop.mnemonics["buffer_load_dwordx4"] == bars.dma
        assert loop.kinds["vmem"] == loop.kinds["smem"] == loop.kinds["lds_write"] == 0
        assert loop.kinds["lds_read"] == bars.lds_reads
        for name, read in loop.lds_reads.items():
            assert read.immediate, name
            assert read.lost == 0, name

    def test_waits_and_scalar_instructions(self, head_size, dtype, rocm):
        bars, loop = BARS[head_size], self.found(head_size, dtype, rocm).loop
        assert loop.kinds["waitcnt"] <= bars.waits
        assert loop.vmcnt0 == bars.waits_for_all
        assert loop.kinds["barrier"] <= bars.barriers
        assert loop.nop_states <= bars.nop_states
        assert loop.kinds["salu"] <= bars.salu, loop.mnemonics


@each("rocm", ROCMS)
@each("dtype", DTYPES)
@each("head_size", HEAD_SIZES)
@each("variant", VARIANTS)
def test_no_variant_spills_or_adds_vector_instructions(variant, head_size, dtype, rocm):
    bars = BARS[head_size]
    found = inspected(spec(head_size=head_size, dtype=dtype, **VARIANTS[variant]), rocm)
    assert (found.vgpr_spills, found.sgpr_spills, found.scratch_bytes) == (0, 0, 0)
    assert found.agprs == found.loop.agpr_moves == 0
    assert found.vgprs <= 256
    assert found.lds_bytes <= bars.lds_bytes
    assert found.loop.kinds["valu"] <= bars.valu, found.loop.mnemonics
    assert found.masked_valu <= bars.masked_valu
    assert found.loop.kinds["trans"] == bars.exp
    assert found.loop.kinds["waitcnt"] <= bars.waits
    assert found.loop.vmcnt0 == bars.waits_for_all
    assert found.pace.cycles <= bars.cycles


@each("rocm", ROCMS)
@each("head_size", HEAD_SIZES)
def test_a_block_starts_and_ends_quickly(head_size, rocm):
    """Modelled cycles of a block of two tiles, and of all but the tiles of a long one."""
    cost = block_cost(spec(head_size=head_size, **VARIANTS["full"]), rocm)
    assert cost.tiles[0] == 2
    assert cost.cycles[0] <= BARS[head_size].turn_cycles
    assert cost.fixed_cycles <= BARS[head_size].fixed_cycles


CYCLES = {
    "head size 16": (dict(head_size=16), 1_100),
    "head size 32": (dict(head_size=32), 1_130),
    "head size 48": (dict(head_size=48), 1_240),
    "head size 80": (dict(head_size=80), 1_540),
    "head size 96": (dict(head_size=96), 1_610),
    "head size 112": (dict(head_size=112), 1_950),
    "head size 64, block_n 128": (dict(head_size=64, block_n=128), 1_290),
    "block_n 128": (dict(block_n=128), 2_080),
    "window, both sides": (dict(causal=False, sliding_window=65, window_right=64), 2_080),
    "persistent, hkv_major": (dict(persistent=True, persist_decode="hkv_major"), 2_080),
    "float32 out": (dict(float32_out=True), 2_080),
    "packed heads": (dict(pack_gqa=True), 2_080),
    "split keys": (dict(num_splits=2, float32_out=True), 2_080),
    # The addresses of buffers that move are vector instructions.
    "wide": (dict(wide_kv=True), 2_110),
    # The largest score is voted on.
    "no lazy_rescale": (dict(lazy_rescale=False), 2_260),
    # Packed instructions wait for the matrix pipe: a loop for the day when hardware can be asked.
    "packed softmax": (dict(packed_softmax=True), 2_340),
    "packed softmax, priority": (dict(packed_softmax=True, raised_priority=True), 2_340),
    "head size 64, packed softmax": (dict(head_size=64, packed_softmax=True), 1_300),
    "head size 64, scaled query": (dict(head_size=64, scaled_query=True), 1_170),
}
"""Modelled cycles of a tile at most, of variants that none of the tests above counts."""
QUICK = ("head size 48", "head size 96", "wide", "head size 64, scaled query")


@each("rocm", ROCMS)
@each("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in CYCLES])
def test_modelled_cycles(name, rocm):
    fields, cycles = CYCLES[name]
    found = inspected(spec(**fields), rocm)
    assert (found.vgpr_spills, found.sgpr_spills, found.scratch_bytes) == (0, 0, 0)
    assert found.findings == []
    assert found.pace.cycles <= cycles


# Three that this kernel does not have, and one that changes its registers alone.
NOT_WIDE = ("block_n 128", "block_m 128", "streaming", "one wave")
WIDE_VARIANTS = {"fp16": dict(dtype="fp16")} | {
    name: fields for name, fields in FEATURES.items() if name not in NOT_WIDE
}
WIDE_CYCLES = {192: 3_250, 256: 4_320}
"""Of a tile on the timing model, by head size; its MFMAs alone take 3,072 and 4,096."""
MORE_CYCLES = {"wide keys": 120}
"""For the resource of a buffer that moves along, which each request makes anew."""

USUAL = ("causal", "persistent qb_major")


@each("rocm", ROCMS)
@each("head_size", WIDE_CYCLES)
@each(
    "variant",
    [pytest.param(v, marks=[] if v in USUAL else pytest.mark.slow) for v in WIDE_VARIANTS],
)
def test_wide_heads_keep_the_matrix_pipe_busy(variant, head_size, rocm):
    fields = dict(causal=True, head_size=head_size) | WIDE_VARIANTS[variant]
    found = inspected(spec(**fields), rocm)
    assert (found.vgpr_spills, found.sgpr_spills, found.scratch_bytes) == (0, 0, 0)
    assert found.agprs == found.loop.agpr_moves == 0
    assert found.findings == []
    assert found.pace.cycles <= WIDE_CYCLES[head_size] + MORE_CYCLES.get(variant, 0)
    assert found.loop.kinds["mfma"] == head_size / 4
    assert found.loop.kinds["dma"] == head_size / 32
    assert found.loop.kinds["trans"] == 32
    assert found.loop.kinds["barrier"] == found.loop.vmcnt0 == 1
    # Packed fp32 would wait for the pipe.
    assert not [m for m in found.loop.mnemonics if m.startswith("v_pk")]
    for name, read in found.loop.lds_reads.items():
        assert read.immediate, name
        assert read.lost == 0, name

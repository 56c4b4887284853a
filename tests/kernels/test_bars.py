"""The hot loop's bars: what a wave may execute for a tile of 64 keys that needs no mask.

Counted in the code objects of both hipRTC generations; the prologue and epilogue drop out.
"""

import functools
from dataclasses import dataclass

import pytest
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
    turn_cycles: int
    fixed_cycles: int
    valu: int = 72
    exp: int = 32
    masked_valu: int = 36
    waits: int = 2
    waits_for_all: int = 0
    nop_states: int = 8
    barriers: int = 4
    salu: int = 12


BARS = {
    64: Bars(
        mfma=16, dma=2, lds_reads=24, lds_bytes=100_608, turn_cycles=10_500, fixed_cycles=8_000
    ),
    128: Bars(
        mfma=32, dma=4, lds_reads=48, lds_bytes=134_656, turn_cycles=14_500, fixed_cycles=10_500
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


@each("rocm", ROCMS)
@each("head_size", HEAD_SIZES)
def test_a_block_starts_and_ends_quickly(head_size, rocm):
    """Modelled cycles of a block of two tiles, and of all but the tiles of a long one."""
    cost = block_cost(spec(head_size=head_size, **VARIANTS["full"]), rocm)
    assert cost.tiles[0] == 2
    assert cost.cycles[0] <= BARS[head_size].turn_cycles
    assert cost.fixed_cycles <= BARS[head_size].fixed_cycles

"""The passes of matrix instructions against the cycles of the CDNA4 manual, tables 28 and 33."""

import pytest

from rocke_cupy.emulator.core.library import ops
from rocke_cupy.emulator.timing.constants import constants
from rocke_cupy.emulator.timing.costs import _cost
from rocke_cupy.emulator.timing.matrix import timing_of

CYCLES = {
    "v_mfma_f32_32x32x1_2b_f32": 64,
    "v_mfma_f32_16x16x1_4b_f32": 32,
    "v_mfma_f32_4x4x1_16b_f32": 8,
    "v_mfma_f32_32x32x2_f32": 64,
    "v_mfma_f32_16x16x4_f32": 32,
    "v_mfma_f32_32x32x4_2b_f16": 64,
    "v_mfma_f32_16x16x4_4b_bf16": 32,
    "v_mfma_f32_4x4x4_16b_f16": 8,
    "v_mfma_f32_32x32x8_f16": 32,
    "v_mfma_f32_16x16x16_bf16": 16,
    "v_mfma_f32_32x32x16_bf16": 32,
    "v_mfma_f32_16x16x32_f16": 16,
    "v_mfma_i32_32x32x4_2b_i8": 64,
    "v_mfma_i32_16x16x4_4b_i8": 32,
    "v_mfma_i32_4x4x4_16b_i8": 8,
    "v_mfma_i32_32x32x16_i8": 32,
    "v_mfma_i32_16x16x32_i8": 16,
    "v_mfma_i32_32x32x32_i8": 32,
    "v_mfma_i32_16x16x64_i8": 16,
    "v_mfma_f64_16x16x4_f64": 64,
    "v_mfma_f32_16x16x32_fp8_bf8": 16,
    "v_mfma_f32_32x32x16_bf8_fp8": 32,
    "v_smfmac_f32_16x16x32_f16": 16,
    "v_smfmac_f32_32x32x16_bf16": 32,
    "v_smfmac_i32_16x16x64_i8": 16,
    "v_smfmac_f32_32x32x32_fp8_fp8": 32,
    "v_smfmac_f32_16x16x64_f16": 16,
    "v_smfmac_f32_32x32x64_bf8_bf8": 32,
}


@pytest.mark.parametrize(("mnemonic", "cycles"), CYCLES.items())
def test_passes_are_of_four_cycles(mnemonic, cycles):
    assert constants()["matrix_pass"] * timing_of(mnemonic).passes == cycles


@pytest.mark.parametrize("scale", ["", "scale_"])
@pytest.mark.parametrize(("size", "long"), [(16, 32), (32, 64)])
def test_small_formats_take_half_the_time_unless_one_has_8_bits(scale, size, long):
    name = f"v_mfma_{scale}f32_{size}x{size}x{2048 // size}_f8f6f4"
    operands = "v[0:15], v[16:19], v[20:23], v[24:39]"
    for formats, cycles in (("", long), (" cbsz:4", long), (" cbsz:2 blgp:4", long // 2)):
        assert _cost(f"{name} {operands}{formats}", 0)[2] == cycles


def test_every_matrix_instruction_has_passes():
    names = [op.name for op in ops().values() if op.unit == "mfma"]
    assert len(names) == 68
    assert all(timing_of(name).passes in (2, 4, 8, 16) for name in names)

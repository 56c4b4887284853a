"""Matrix instructions against NumPy, elements placed by the published lane layouts."""

import ml_dtypes
import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError
from rocke_cupy.emulator.assemble import assemble
from rocke_cupy.emulator.program.operands import UnknownInstruction
from rocke_cupy.emulator.step import State, step

BF16 = ml_dtypes.bfloat16
# mnemonic, rows and columns, values of k in one lane, 16-bit type
KINDS = [
    ("v_mfma_f32_32x32x16_bf16", 32, 8, BF16),
    ("v_mfma_f32_32x32x16_f16", 32, 8, np.float16),
    ("v_mfma_f32_16x16x32_bf16", 16, 8, BF16),
    ("v_mfma_f32_16x16x32_f16", 16, 8, np.float16),
    ("v_mfma_f32_32x32x8_bf16", 32, 4, BF16),
    ("v_mfma_f32_32x32x8_f16", 32, 4, np.float16),
    ("v_mfma_f32_16x16x16_bf16", 16, 4, BF16),
    ("v_mfma_f32_16x16x16_f16", 16, 4, np.float16),
]


def spread(matrix: np.ndarray, k_each: int) -> np.ndarray:
    """Registers of an operand: matrix is (row or column, k)."""
    size = len(matrix)
    registers = np.zeros((k_each // 2, 64), np.uint32)
    for lane in range(64):
        for e in range(k_each):
            bits = matrix[lane % size, k_each * (lane // size) + e].view(np.uint16)
            registers[e // 2, lane] |= np.uint32(bits) << np.uint32(16 * (e % 2))
    return registers


def rows_of(size: int, register: int) -> list[int]:
    """Row of each lane in one register of the result."""
    groups = 64 // size
    return [4 * groups * (register // 4) + 4 * (lane // size) + register % 4 for lane in range(64)]


def gathered(registers: np.ndarray, size: int) -> np.ndarray:
    result = np.zeros((size, size), np.float32)
    for r, values in enumerate(registers.view(np.float32)):
        result[rows_of(size, r), np.arange(64) % size] = values
    return result


def scattered(matrix: np.ndarray) -> np.ndarray:
    size = len(matrix)
    registers = [matrix[rows_of(size, r), np.arange(64) % size] for r in range(size * size // 64)]
    return np.array(registers, np.float32).view(np.uint32)


def operands(size: int, k_each: int, dtype: type, seed: int = 0):
    rng = np.random.default_rng(seed)
    k = k_each * 64 // size
    a, b = (rng.standard_normal((size, k)).astype(dtype) for _ in range(2))
    return a, b, rng.standard_normal((size, size)).astype(np.float32)


def run(mnemonic: str, size: int, k_each: int, a, b, c, text: str) -> np.ndarray:
    state = State()
    width, results = k_each // 2, size * size // 64
    state.v[10 : 10 + width] = spread(a, k_each)
    state.v[20 : 20 + width] = spread(b, k_each)
    state.v[30 : 30 + results] = scattered(c)
    step(text, state)
    return gathered(state.v[60 : 60 + results], size)


@pytest.mark.parametrize(("mnemonic", "size", "k_each", "dtype"), KINDS)
class TestProducts:
    def text(self, mnemonic, size, k_each, c="v[30:{c}]"):
        results, width = size * size // 64, k_each // 2
        c = c.format(c=30 + results - 1)
        return (
            f"{mnemonic} v[60:{60 + results - 1}], v[10:{10 + width - 1}], "
            f"v[20:{20 + width - 1}], {c}"
        )

    def test_are_sums_rounded_once(self, mnemonic, size, k_each, dtype):
        a, b, c = operands(size, k_each, dtype)
        got = run(mnemonic, size, k_each, a, b, c, self.text(mnemonic, size, k_each))
        expected = c + a.astype(np.float64) @ b.astype(np.float64).T
        np.testing.assert_array_equal(got, expected.astype(np.float32))

    def test_start_from_a_constant(self, mnemonic, size, k_each, dtype):
        a, b, c = operands(size, k_each, dtype)
        for constant, value in (("0", 0.0), ("1.0", 1.0)):
            text = self.text(mnemonic, size, k_each, constant)
            got = run(mnemonic, size, k_each, a, b, c, text)
            expected = value + a.astype(np.float64) @ b.astype(np.float64).T
            np.testing.assert_array_equal(got, expected.astype(np.float32))

    def test_each_place_of_a_and_b_meets_its_partner(self, mnemonic, size, k_each, dtype):
        _, _, c = operands(size, k_each, dtype)
        k = k_each * 64 // size
        for m, n, j in ((0, 0, 0), (1, 2, 3), (size - 1, 5, k - 1), (7, size - 1, k // 2)):
            a, b = np.zeros((size, k), dtype), np.zeros((size, k), dtype)
            a[m, j], b[n, j] = 2.0, 3.0
            got = run(mnemonic, size, k_each, a, b, 0 * c, self.text(mnemonic, size, k_each))
            assert np.argwhere(got).tolist() == [[m, n]]
            assert got[m, n] == 6.0


def test_16_bit_denormals_are_kept_although_fp32_ones_are_flushed():
    a = np.zeros((32, 16), BF16)
    b = np.zeros((32, 16), BF16)
    a[3, 5] = np.array(1, np.uint16).view(BF16)  # 2**-133
    b[4, 5] = 2.0**100
    text = "v_mfma_f32_32x32x16_bf16 v[60:75], v[10:13], v[20:23], v[30:45]"
    got = run("", 32, 8, a, b, np.zeros((32, 32), np.float32), text)
    assert got[3, 4] == 2.0**-33


def test_the_accumulator_may_be_the_result():
    a, b, c = operands(32, 8, BF16)
    state = State()
    state.v[10:14], state.v[20:24], state.v[60:76] = spread(a, 8), spread(b, 8), scattered(c)
    step("v_mfma_f32_32x32x16_bf16 v[60:75], v[10:13], v[20:23], v[60:75]", state)
    expected = c + a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_array_equal(gathered(state.v[60:76], 32), expected.astype(np.float32))


def test_sources_and_result_in_accumulation_registers():
    a, b, c = operands(32, 8, np.float16)
    state = State()
    state.v[256 + 4 : 256 + 8], state.v[20:24] = spread(a, 8), spread(b, 8)
    state.v[256 + 32 : 256 + 48] = scattered(c)
    step("v_mfma_f32_32x32x16_f16 a[32:47], a[4:7], v[20:23], a[32:47]", state)
    expected = c + a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_array_equal(
        gathered(state.v[256 + 32 : 256 + 48], 32), expected.astype(np.float32)
    )


def test_exec_does_not_matter():
    a, b, c = operands(32, 8, BF16)
    state = State()
    state.v[10:14], state.v[20:24], state.v[30:46] = spread(a, 8), spread(b, 8), scattered(c)
    state.set64("exec", 0)
    step("v_mfma_f32_32x32x16_bf16 v[60:75], v[10:13], v[20:23], v[30:45]", state)
    assert state.v[60:76].any()


def test_a_result_across_its_accumulator_stops():
    # the assembler refuses to write it
    code = assemble("v_mfma_f32_32x32x16_bf16 v[60:75], v[10:13], v[20:23], v[60:75]")
    second = int.from_bytes(code[4:8], "little") + (2 << 18)  # source 2 becomes v[62:77]
    with pytest.raises(EmulationError, match="overlaps its accumulator"):
        step(code[:4] + second.to_bytes(4, "little"), State())


def test_broadcast_modifiers_are_not_modelled():
    with pytest.raises(UnknownInstruction, match="cbsz"):
        step("v_mfma_f32_32x32x8_f16 v[60:75], v[10:11], v[20:21], v[30:45] cbsz:1", State())

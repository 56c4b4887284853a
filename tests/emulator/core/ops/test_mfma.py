"""Matrix instructions against NumPy, elements placed by the layouts of the CDNA4 manual."""

import re
from itertools import product as pairs

import ml_dtypes
import numpy as np
import pytest
from helpers.matrices import (
    BITS,
    FORMATS,
    Shape,
    gather,
    product,
    random_matrix,
    registers_of_items,
    scatter,
    spread,
)

from rocke_cupy.emulator import EmulationError
from rocke_cupy.emulator.assemble import assemble
from rocke_cupy.emulator.core.library import ops
from rocke_cupy.emulator.program.operands import UnknownInstruction
from rocke_cupy.emulator.step import KEEP_DENORMALS, State, step

SMALL = ("fp8", "bf8", "fp6", "bf6", "fp4")
"""Formats by the number that cbsz and blgp give them."""


def shapes_by_name() -> dict[str, Shape]:
    """The products of all matrix instructions with fixed formats, read off their names."""
    found = {}
    for name in ops():
        parts = re.match(
            r"v_(s?)mfmac?_(?:f32|i32|f64)_(\d+)x\d+x(\d+)(?:_(\d+)b)?_(\w+?)(?:_(\w+))?$", name
        )
        if not parts or "f8f6f4" in name:
            continue
        sparse, size, k, blocks, a, b = parts.groups()
        shape = Shape(int(size), int(k), a, b or a, int(blocks or 1))
        if sparse and shape.k * shape.size // 64 * BITS[shape.b] > 128:
            shape = Shape(shape.size, shape.k, shape.a, shape.b, run=128 // BITS[shape.b])
        found[name] = shape
    return found


SHAPES = shapes_by_name()
DENSE = {name: shape for name, shape in SHAPES.items() if name.startswith("v_mfma")}
SPARSE = {name: shape for name, shape in SHAPES.items() if name.startswith("v_smfmac")}


def test_all_shapes_are_here():
    assert (len(DENSE), len(SPARSE)) == (36, 28)


def operands(shape: Shape, seed: int = 0):
    rng = np.random.default_rng(seed)
    outer = shape.blocks, shape.size
    a = random_matrix(rng, shape.a, (*outer, shape.k))
    b = random_matrix(rng, shape.b, (*outer, shape.k))
    if shape.integer:
        return a, b, rng.integers(-(2**31), 2**31, (*outer, shape.size)).astype(np.int32)
    return a, b, rng.standard_normal((*outer, shape.size)).astype(shape.result)


class Matrices:
    """Registers for A, B, C and D, and what an instruction makes of them."""

    def __init__(self, shape: Shape, a, b, c):
        self.shape, self.state, self.text = shape, State(), {}
        parts = {"a": spread(a, shape.a, shape), "b": spread(b, shape.b, shape)}
        parts |= {"c": scatter(c, shape), "d": 0 * scatter(c, shape)}
        first = 10
        for name, registers in parts.items():
            self.put(name, first, registers)
            first += 40

    def put(self, name, first, registers):
        last = first + len(registers) - 1
        self.state.v[first : last + 1] = registers
        self.text[name] = f"v[{first}:{last}]" if last > first else f"v{first}"

    def result(self, mnemonic, modifiers="", c="{c}", more="", **how):
        form = f"{mnemonic} {{d}}, {{a}}, {{b}}, {c}{more} {modifiers}"
        step(form.format(**self.text), self.state, **how)
        first, last = (int(number) for number in re.findall(r"\d+", self.text["d"])[:2])
        return gather(self.state.v[first : last + 1], self.shape)


def assert_same(got, expected):
    if expected.dtype == np.float64:  # sums of products rounded one by one
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14)
    else:
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("mnemonic", "shape"), DENSE.items())
class TestProducts:
    def test_are_sums_rounded_once(self, mnemonic, shape):
        a, b, c = operands(shape)
        assert_same(Matrices(shape, a, b, c).result(mnemonic), product(a, b, c))

    def test_start_from_a_constant(self, mnemonic, shape):
        a, b, c = operands(shape)
        values = {"0": 0, "5": 5} if shape.integer else {"0": 0.0, "1.0": 1.0, "-4.0": -4.0}
        for constant, value in values.items():
            got = Matrices(shape, a, b, c).result(mnemonic, c=constant)
            assert_same(got, product(a, b, np.full_like(c, value)))

    def test_each_place_of_a_and_b_meets_its_partner(self, mnemonic, shape):
        size, k = shape.size, shape.k
        for m, n, j in ((0, 0, 0), (1, 2, k - 1), (size - 1, 1, k // 2), (2, size - 1, k // 3)):
            a = np.zeros((shape.blocks, size, k), FORMATS[shape.a])
            b = np.zeros((shape.blocks, size, k), FORMATS[shape.b])
            a[-1, m, j], b[-1, n, j] = 2, 3
            c = np.zeros((shape.blocks, size, size), shape.result)
            got = Matrices(shape, a, b, c).result(mnemonic)
            assert np.argwhere(got).tolist() == [[shape.blocks - 1, m, n]]
            assert got[-1, m, n] == 6


@pytest.mark.parametrize(("mnemonic", "shape"), SPARSE.items())
@pytest.mark.parametrize("last", [False, True])
def test_sparse_products(mnemonic, shape, last):
    rng = np.random.default_rng(1)
    dense, b, c = operands(shape)
    stored = shape.k // 2 * shape.size // 64
    sets = 16 // stored
    chosen = np.sort(
        rng.permuted(np.tile(range(4), (1, shape.size, shape.k // 4, 1)), axis=3)[..., :2]
    )
    packed = np.take_along_axis(dense.reshape(*chosen.shape[:3], 4), chosen, 3)
    a = np.zeros_like(dense.reshape(*chosen.shape[:3], 4))
    np.put_along_axis(a, chosen, packed, 3)

    # A lane's values of A are successive, whether those of B are or not; it has two bits for each.
    sparse = Shape(shape.size, shape.k // 2, shape.a, shape.b)
    setup = Matrices(shape, dense, b, c)
    setup.put("a", 10, spread(packed.reshape(1, shape.size, -1), shape.a, sparse))
    flat = chosen.reshape(1, shape.size, -1).astype(np.uint8)
    bits = spread(flat.view(np.int8), "i8", sparse)  # a byte each
    indices = bits.view(np.uint8).reshape(len(bits), 64, 4).transpose(0, 2, 1).reshape(-1, 64)
    other = rng.integers(0, 2**32, (1, 64), np.uint32)
    packed_bits = registers_of_items(indices.astype(np.uint64), 2)
    index_set = sets - 1 if last else 0
    width = 2 * stored * index_set
    registers = packed_bits << np.uint32(width) | (other & np.uint32((1 << width) - 1))
    setup.put("c", 90, registers)
    setup.put("d", 130, scatter(c, shape))
    got = setup.result(mnemonic, f"abid:{index_set}" if index_set else "")
    np.testing.assert_array_equal(got, product(a.reshape(dense.shape), b, c))


def test_sparse_ones_take_the_sums_of_rows():
    """How aiter's fp8 attention uses them: B is P as a 32x32x64 product takes it.

    Lane l holds probabilities of query l % 32. Rows of A with bit 2 clear have ones in their lower
    half, the others in their upper half; even ones take the first two of four values of k, odd ones
    the others. Two registers of the result then add up to the sum of the lane's own query.
    """
    rng = np.random.default_rng(4)
    p = random_matrix(rng, "fp8", (1, 32, 64))
    p = np.abs(p.astype(np.float32)).clip(0, 4).astype(p.dtype)
    state = State()
    state.v[20:28] = spread(p, "fp8", Shape(32, 64, "fp8", "fp8", run=16))
    lane = np.arange(64)
    ones = np.where(lane % 4 < 2, np.uint32(0x38383838), np.uint32(0))  # 1.0 in fp8
    state.v[10:12] = np.where(lane & 4, 0, ones)
    state.v[12:14] = np.where(lane & 4, ones, 0)
    state.v[14] = np.where(lane % 4 == 1, np.uint32(0xEEEEEEEE), np.uint32(0x44444444))
    step("v_smfmac_f32_16x16x128_fp8_fp8 v[0:3], v[10:13], v[20:27], v14", state)
    sums = p[0].astype(np.float64).sum(1)
    np.testing.assert_array_equal(state.floats(0) + state.floats(1), sums[lane % 32])


def small_shape(size, a, b):
    return Shape(size, 2048 // size, a, b)


def small_operands(size, a, b):
    """A and B with their registers; those of 8 bits lie in runs of 16."""
    matrices = operands(small_shape(size, a, b))
    setup = Matrices(small_shape(size, a, b), *matrices)
    for name, fmt, matrix, first in (("a", a, matrices[0], 10), ("b", b, matrices[1], 50)):
        shape = Shape(size, 2048 // size, fmt, fmt, run=16 if BITS[fmt] == 8 else 0)
        setup.put(name, first, spread(matrix, fmt, shape))
    return *matrices, setup


@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize(("a", "b"), list(pairs(SMALL, SMALL)))
class TestSmallFormats:
    def mnemonic(self, size, scale=""):
        return f"v_mfma_{scale}f32_{size}x{size}x{2048 // size}_f8f6f4"

    def modifiers(self, a, b):
        return f"cbsz:{SMALL.index(a)} blgp:{SMALL.index(b)}"

    def test_meet_each_other(self, size, a, b):
        x, y, c, setup = small_operands(size, a, b)
        got = setup.result(self.mnemonic(size), self.modifiers(a, b))
        np.testing.assert_array_equal(got, product(x, y, c))

    def test_have_a_scale_for_each_32_values_of_k(self, size, a, b):
        x, y, c, setup = small_operands(size, a, b)
        rng = np.random.default_rng(2)
        exponents = rng.integers(117, 138, (2, 4, 64), np.uint8)  # sources, bytes, lanes
        setup.put("c", 90, scatter(c, setup.shape))
        setup.state.v[200:202] = np.ascontiguousarray(exponents.transpose(0, 2, 1)).view(np.uint32)[
            ..., 0
        ]
        scaled = []
        for matrix, chosen in ((x, exponents[0, 1]), (y, exponents[1, 2])):
            by_row = chosen.reshape(-1, size).T  # row, block of k: lane l has row l % size
            scale = np.ldexp(1.0, by_row.astype(int) - 127)
            scaled.append(matrix.astype(np.float64) * scale.repeat(32, axis=1))
        got = setup.result(
            self.mnemonic(size, "scale_"),
            f"op_sel:[1,0,0] op_sel_hi:[0,1,0] {self.modifiers(a, b)}",
            more=", v200, v201",
        )
        np.testing.assert_array_equal(got, product(*scaled, c))


def test_constant_scales_are_the_exponents_of_floats():
    x, y, c, setup = small_operands(32, "fp8", "fp4")
    got = setup.result(
        "v_mfma_scale_f32_32x32x64_f8f6f4", "op_sel_hi:[0,0,0] blgp:4", more=", 4.0, 0.5"
    )
    np.testing.assert_array_equal(got, product(x.astype(float), 2 * y.astype(float), c))


def test_a_scale_of_255_is_nan():
    _, _, _, setup = small_operands(32, "fp4", "fp4")
    setup.state.v[200], setup.state.v[201] = 127, 127
    setup.state.v[200, 35] = 255  # row 3, the second half of k
    got = setup.result(
        "v_mfma_scale_f32_32x32x64_f8f6f4", "op_sel_hi:[0,0,0] cbsz:4 blgp:4", more=", v200, v201"
    )
    assert np.isnan(got[0, 3]).all()
    assert np.isfinite(np.delete(got[0], 3, 0)).all()


def test_a_scale_in_a_scalar_register_is_not_modelled():
    text = "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], 0, s3, v1"
    with pytest.raises(UnknownInstruction, match="scalar register"):
        step(text, State())


class TestBroadcasts:
    """CDNA4 manual 7.1.6: the lanes that A and B are read from."""

    NAME, SHAPE = "v_mfma_f32_4x4x4_16b_f16", DENSE["v_mfma_f32_4x4x4_16b_f16"]

    @pytest.mark.parametrize(("cbsz", "abid"), [(1, 0), (1, 1), (2, 3), (3, 5), (4, 11)])
    def test_one_block_of_lanes_gives_a_to_the_others(self, cbsz, abid):
        a, b, c = operands(self.SHAPE)
        lanes = np.arange(64) % (64 >> cbsz) + (64 >> cbsz) * abid
        taken = a.reshape(64, 4)[lanes].reshape(a.shape)
        got = Matrices(self.SHAPE, a, b, c).result(self.NAME, f"cbsz:{cbsz} abid:{abid}")
        np.testing.assert_array_equal(got, product(taken, b, c))

    @pytest.mark.parametrize("blgp", range(1, 8))
    def test_lanes_of_b_are_permuted(self, blgp):
        a, b, c = operands(self.SHAPE)
        lane = np.arange(64)
        lanes = {1: lane % 32, 2: lane % 32 + 32, 3: (lane + 16) % 64}.get(
            blgp, lane % 16 + 16 * (blgp - 4)
        )
        taken = b.reshape(64, 4)[lanes].reshape(b.shape)
        got = Matrices(self.SHAPE, a, b, c).result(self.NAME, f"blgp:{blgp}")
        np.testing.assert_array_equal(got, product(a, taken, c))

    def test_of_a_single_matrix_are_not_modelled(self):
        with pytest.raises(UnknownInstruction, match="cbsz"):
            step("v_mfma_f32_32x32x8_f16 v[60:75], v[10:11], v[20:21], v[30:45] cbsz:1", State())

    def test_beyond_the_number_of_blocks_are_not_modelled(self):
        with pytest.raises(UnknownInstruction, match="cbsz"):
            step("v_mfma_f32_32x32x1_2b_f32 v[0:31], v32, v33, v[34:65] cbsz:2", State())
        with pytest.raises(UnknownInstruction, match="cbsz:1"):
            step("v_mfma_f32_32x32x1_2b_f32 v[0:31], v32, v33, v[34:65] cbsz:1 abid:2", State())


@pytest.mark.parametrize("name", ["v_mfma_f64_16x16x4_f64", "v_mfma_f64_4x4x4_4b_f64"])
def test_fp64_operands_are_negated(name):
    a, b, c = operands(DENSE[name])
    got = Matrices(DENSE[name], a, b, c).result(name, "neg:[1,0,1]")
    assert_same(got, product(-a, b, -c))


class TestDenormals:
    def product_of(self, name, a_value, b_value, **how):
        shape = DENSE[name]
        a = np.zeros((1, shape.size, shape.k), FORMATS[shape.a])
        b = np.zeros((1, shape.size, shape.k), FORMATS[shape.b])
        a[0, 3, 1], b[0, 4, 1] = a_value, b_value
        c = np.zeros((1, shape.size, shape.size), np.float32)
        return Matrices(shape, a, b, c).result(name, **how)[0, 3, 4]

    def test_of_16_bits_are_kept_although_fp32_ones_are_flushed(self):
        tiny = np.array(1, np.uint16).view(ml_dtypes.bfloat16)  # 2**-133
        assert self.product_of("v_mfma_f32_32x32x16_bf16", tiny, 2.0**100) == 2.0**-33

    def test_of_fp32_sources_follow_the_mode(self):
        name = "v_mfma_f32_32x32x2_f32"
        assert self.product_of(name, 2.0**-130, 2.0**100) == 0.0
        assert self.product_of(name, 2.0**-130, 2.0**100, mode=KEEP_DENORMALS) == 2.0**-30

    def test_of_results_are_kept(self):
        assert self.product_of("v_mfma_f32_32x32x16_bf16", 2.0**-70, 2.0**-70) == 2.0**-140


NAME = "v_mfma_f32_32x32x16_bf16"


def test_the_accumulator_may_be_the_result():
    a, b, c = operands(DENSE[NAME])
    setup = Matrices(DENSE[NAME], a, b, c)
    setup.put("d", 130, scatter(c, DENSE[NAME]))
    np.testing.assert_array_equal(setup.result(NAME, c="{d}"), product(a, b, c))


def test_sources_and_result_in_accumulation_registers():
    a, b, c = operands(DENSE[NAME])
    shape, state = DENSE[NAME], State()
    state.v[256 + 4 : 256 + 8], state.v[20:24] = spread(a, "bf16", shape), spread(b, "bf16", shape)
    state.v[256 + 32 : 256 + 48] = scatter(c, shape)
    step(f"{NAME} a[32:47], a[4:7], v[20:23], a[32:47]", state)
    np.testing.assert_array_equal(gather(state.v[288:304], shape), product(a, b, c))


def test_exec_does_not_matter():
    a, b, c = operands(DENSE[NAME])
    setup = Matrices(DENSE[NAME], a, b, c)
    setup.state.set64("exec", 0)
    np.testing.assert_array_equal(setup.result(NAME), product(a, b, c))


def test_a_result_across_its_accumulator_stops():
    # the assembler refuses to write it
    code = assemble(f"{NAME} v[60:75], v[10:13], v[20:23], v[60:75]")
    second = int.from_bytes(code[4:8], "little") + (2 << 18)  # source 2 becomes v[62:77]
    with pytest.raises(EmulationError, match="overlaps its accumulator"):
        step(code[:4] + second.to_bytes(4, "little"), State())


@pytest.mark.parametrize("first", [28, 32])
def test_a_result_of_four_registers_may_lie_across_its_accumulator(first):
    # clang allocates it so: LLVM keeps larger results apart only
    name = "v_mfma_f32_16x16x32_bf16"
    a, b, c = operands(DENSE[name])
    setup = Matrices(DENSE[name], a, b, c)
    setup.put("c", 30, scatter(c, DENSE[name]))
    setup.put("b", 50, spread(b, "bf16", DENSE[name]))
    setup.text["d"] = f"v[{first}:{first + 3}]"
    np.testing.assert_array_equal(setup.result(name), product(a, b, c))

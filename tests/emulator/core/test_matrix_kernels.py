"""Matrix instructions as both compilers emit them for HIP's builtins, against NumPy."""

import numpy as np
import pytest
from helpers.matrices import BITS, Shape, gather, product, random_matrix, scatter, spread

from rocke_cupy.emulator import hiprtc, run

ROCM = ("7.0", "7.14")
PLAIN = "{builtin}(a, b, c, 0, 0, 0)"
SCALED = "{builtin}(a, b, c, {a}, {b}, 1, scales[lane], 2, scales[64 + lane])"

# builtin, shape, registers and element of A and of B as C++ has them, call
KERNELS = {
    "f32_32x32x2f32": (Shape(32, 2, "f32", "f32"), "float", "float", PLAIN),
    "f32_4x4x4f16": (Shape(4, 4, "f16", "f16", 16), "_Float16 4", "_Float16 4", PLAIN),
    "f32_32x32x4bf16_1k": (Shape(32, 4, "bf16", "bf16", 2), "short 4", "short 4", PLAIN),
    "f32_16x16x32_fp8_bf8": (Shape(16, 32, "fp8", "bf8"), "long", "long", PLAIN),
    "i32_16x16x64_i8": (Shape(16, 64, "i8", "i8"), "int 4", "int 4", PLAIN),
    "i32_32x32x32_i8": (Shape(32, 32, "i8", "i8"), "int 4", "int 4", PLAIN),
    "f64_16x16x4f64": (Shape(16, 4, "f64", "f64"), "double", "double", PLAIN),
    "scale_f32_32x32x64_f8f6f4": (Shape(32, 64, "fp8", "fp4"), "int 8", "int 8", SCALED),
    "scale_f32_16x16x128_f8f6f4": (Shape(16, 128, "bf6", "bf8"), "int 8", "int 8", SCALED),
}
SMALL = ("fp8", "bf8", "fp6", "bf6", "fp4")
SOURCE = """
typedef {a_type}; typedef {b_type}; typedef {c_type};
extern "C" __global__ __launch_bounds__(64) void product(
    const A* as, const B* bs, const C* cs, C* ds, const unsigned* scales) {{
  int lane = threadIdx.x;
  A a = as[lane];
  B b = bs[lane];
  C c = cs[lane];
  ds[lane] = {call};
}}
"""


def typedef(text, name):
    element, _, count = text.partition(" ")
    vector = f" __attribute__((ext_vector_type({count})))" if count else ""
    return f"{element} {name}{vector}"


def by_lane(registers, words):
    """Registers as a kernel loads them: each lane's, one after the other, up to so many."""
    padded = np.zeros((64, words), np.uint32)
    padded[:, : len(registers)] = registers.T
    return padded


@pytest.mark.parametrize("rocm", ROCM)
@pytest.mark.parametrize("name", KERNELS)
def test_products(name, rocm):
    shape, a_type, b_type, call = KERNELS[name]
    rng = np.random.default_rng(5)
    outer = shape.blocks, shape.size
    a = random_matrix(rng, shape.a, (*outer, shape.k))
    b = random_matrix(rng, shape.b, (*outer, shape.k))
    c = rng.integers(-100, 100, (*outer, shape.size)).astype(shape.result)

    # Formats by modifier have 32 values of k in a lane, those of 8 bits in runs of 16.
    def registers_of(matrix, fmt):
        run_of_8 = 16 if name.startswith("scale") and BITS[fmt] == 8 else 0
        return spread(matrix, fmt, Shape(shape.size, shape.k, fmt, fmt, shape.blocks, run_of_8))

    a_registers, b_registers = registers_of(a, shape.a), registers_of(b, shape.b)
    c_registers = scatter(c, shape)
    element = {"f64": "double", "i8": "int"}.get(shape.a, "float")
    c_count = len(c_registers) // (2 if element == "double" else 1)
    formats = {k: SMALL.index(v) for k, v in (("a", shape.a), ("b", shape.b)) if v in SMALL}
    builtin = f"__builtin_amdgcn_mfma_{name}"
    source = SOURCE.format(
        a_type=typedef(a_type, "A"),
        b_type=typedef(b_type, "B"),
        c_type=typedef(f"{element} {c_count}", "C"),
        call=call.format(builtin=builtin, **formats),
    )
    scales = rng.integers(117, 138, (128, 4), np.uint8).view(np.uint32)[:, 0]
    out = np.zeros((64, len(c_registers)), np.uint32)
    words = [8 if call is SCALED else len(r) for r in (a_registers, b_registers)]
    report = run(
        hiprtc.compile(source, rocm=rocm).code, "product", (1,), (64,),
        [by_lane(a_registers, words[0]), by_lane(b_registers, words[1]),
         by_lane(c_registers, len(c_registers)), out, scales],
    )  # fmt: skip
    assert report.count("v_mfma_*") == 1
    if call is SCALED:
        a, b = (
            scaled(matrix, scales[part] >> shift & 255)
            for matrix, part, shift in ((a, slice(64), 8), (b, slice(64, 128), 16))
        )
    got = gather(np.ascontiguousarray(out.T), shape)
    if shape.result is np.float64:
        np.testing.assert_allclose(got, product(a, b, c), rtol=1e-13)
    else:
        np.testing.assert_array_equal(got, product(a, b, c))


def scaled(matrix, exponents):
    """Each 32 values of k times their scale; lane l has that of row l % size."""
    size = matrix.shape[1]
    scale = np.ldexp(1.0, exponents.reshape(-1, size).T.astype(int) - 127)
    return matrix.astype(np.float64) * scale.repeat(32, axis=1)


@pytest.mark.parametrize("rocm", ROCM)
def test_conversions_and_dots(rocm):
    source = """
extern "C" __global__ __launch_bounds__(64) void convert(
    const float* in, const int* words, int* out) {
  int lane = threadIdx.x;
  float a = in[2 * lane], b = in[2 * lane + 1];
  int packed = __builtin_amdgcn_cvt_pk_fp8_f32(a, b, 0, false);
  packed = __builtin_amdgcn_cvt_pk_fp8_f32(b, a, packed, true);
  auto back = __builtin_amdgcn_cvt_pk_f32_fp8(packed, true);
  out[4 * lane] = packed;
  out[4 * lane + 1] = __builtin_bit_cast(int, back[0]);
  out[4 * lane + 2] = __builtin_bit_cast(int, __builtin_amdgcn_cvt_f32_fp8(packed, 1));
  out[4 * lane + 3] = __builtin_amdgcn_sdot4(words[lane], packed, lane, false);
}
"""
    rng = np.random.default_rng(6)
    values = (8 * rng.standard_normal((64, 2))).astype(np.float32)
    words = rng.integers(-(2**31), 2**31, 64).astype(np.int32)
    out = np.zeros((64, 4), np.uint32)
    code = hiprtc.compile(source, rocm=rocm).code
    run(code, "convert", (1,), (64,), [values, words, out])
    small = values.astype(random_matrix(rng, "fp8", 1).dtype)
    packed = np.concatenate([small, small[:, ::-1]], 1)
    np.testing.assert_array_equal(out[:, 0], packed.view(np.uint32)[:, 0])
    np.testing.assert_array_equal(out[:, 1].view(np.float32), small[:, 1].astype(np.float32))
    np.testing.assert_array_equal(out[:, 2].view(np.float32), small[:, 1].astype(np.float32))
    bytes_of = words.view(np.int8).reshape(64, 4).astype(int), packed.view(np.int8).astype(int)
    np.testing.assert_array_equal(
        out[:, 3].view(np.int32), (bytes_of[0] * bytes_of[1]).sum(1) + np.arange(64)
    )

"""What hipRTC makes of ordinary device code, against NumPy: long sequences of many instructions."""

import ml_dtypes
import numpy as np
import pytest

from rocke_cupy.emulator import hiprtc, load, run

ROCM = ("7.0", "7.14")
MATH = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "atan": np.arctan,
    "sinh": np.sinh, "tanh": np.tanh, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt,
    "cbrt": np.cbrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
    "fabs": np.abs,
}  # fmt: skip
MATH_2 = {"pow": np.power, "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot,
          "fmax": np.fmax, "fmin": np.fmin, "copysign": np.copysign}  # fmt: skip
INTEGERS = {
    "signed char": np.int8, "unsigned char": np.uint8, "short": np.int16,
    "unsigned short": np.uint16, "int": np.int32, "unsigned": np.uint32, "long long": np.int64,
    "unsigned long long": np.uint64,
}  # fmt: skip
HEAD = "int i = blockIdx.x * 64 + threadIdx.x;"


def name_of(text: str) -> str:
    return text.replace(" ", "_")


@pytest.fixture(scope="module", params=ROCM)
def code(request) -> bytes:
    return hiprtc.compile(source(), rocm=request.param).code


def source() -> str:
    parts = []
    for kind, letter in (("float", "f"), ("double", "")):
        for name in MATH:
            parts.append(
                f"KERNEL {kind}_{name}({kind}* x) {{ {HEAD} x[i] = {name}{letter}(x[i]); }}"
            )
        for name in MATH_2:
            call = f"{name}{letter}(x[i], y[i])"
            parts.append(f"KERNEL {kind}_{name}({kind}* x, {kind}* y) {{ {HEAD} x[i] = {call}; }}")
    for kind in INTEGERS:
        stores = " ".join(
            f"z[i * 9 + {k}] = ({kind})({expression});"
            for k, expression in enumerate(
                ("x[i] + y[i]", "x[i] - y[i]", "x[i] * y[i]", "x[i] / y[i]", "x[i] % y[i]",
                 "x[i] & ~y[i]", "x[i] < y[i]", "x[i] >> (y[i] & 7)", "x[i] << (y[i] & 7)")
            )
        )  # fmt: skip
        parts.append(
            f"KERNEL i_{name_of(kind)}({kind}* x, {kind}* y, {kind}* z) {{ {HEAD} {stores} }}"
        )
    parts.append(REDUCTIONS)
    return '#define KERNEL extern "C" __global__ __launch_bounds__(64) void\n' + "\n".join(parts)


REDUCTIONS = """
KERNEL shuffles(int* x) {
    int i = threadIdx.x, v = x[i];
    for (int step = 1; step < 64; step *= 2) v += __shfl_xor(v, step);
    x[i] = v + __shfl_down(i, 3) * 1000 + __shfl_up(i, 5) * 100000;
}
KERNEL votes(int* x, unsigned long long* y) {
    int i = threadIdx.x;
    y[3 * i] = __ballot(x[i] > 3);
    y[3 * i + 1] = __any(x[i] == 5) * 2 + __all(x[i] < 100);
    y[3 * i + 2] = __popcll(y[3 * i]) * 100 + __clz(x[i]) + __ffs(x[i]);
}
KERNEL halves(_Float16* x, __bf16* y, float* z) {
    int i = threadIdx.x;
    z[i] = (float)x[i] * (float)y[i];
    x[i] = x[i] * x[i] + x[i];
    y[i] = (__bf16)(z[i] + 1.0f);
}
KERNEL atomics(int* x, float* f, double* d, unsigned long long* m) {
    int i = threadIdx.x;
    atomicAdd(x, i);
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
    atomicMax(m, (unsigned long long)i << 40);
}
__device__ __attribute__((noinline)) float in_memory(float a, int n) {
    float r[40];
    for (int k = 0; k < 40; k++) r[k] = a * k;
    return r[n];
}
KERNEL stack(float* x, int* n) { x[threadIdx.x] = in_memory(x[threadIdx.x], n[threadIdx.x]); }
"""


def inputs(dtype: type) -> np.ndarray:
    rng = np.random.default_rng(1)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e5]
    values = [
        rng.standard_normal(248) * 3,
        rng.uniform(-1, 1, 128),
        np.exp(rng.uniform(-20, 20, 128)),
    ]
    return np.concatenate([*values, special]).astype(dtype)


def ulps(got: np.ndarray, expected: np.ndarray, dtype: type) -> np.ndarray:
    """Distance in units of the last place; a flushed denormal and an overflow are right."""
    info = np.finfo(dtype)
    bounded = np.clip(np.abs(expected), info.tiny, info.max / 4)
    spacing = np.spacing(bounded.astype(dtype)).astype(float)
    with np.errstate(all="ignore"):
        gap = np.abs(got.astype(float) - expected) / spacing
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    same |= (np.abs(expected) < info.tiny) & (np.abs(got) < info.tiny)
    same |= (np.abs(expected) > float(info.max)) & np.isinf(got)
    return np.where(same, 0, gap)


@pytest.mark.parametrize("name", [*MATH, *MATH_2])
@pytest.mark.parametrize(("kind", "dtype"), [("float", np.float32), ("double", np.float64)])
def test_math(code, name, kind, dtype):
    x = inputs(dtype)
    y = (np.random.default_rng(2).standard_normal(512) * 2).astype(dtype)
    got = x.copy()
    run(code, f"{kind}_{name}", (8,), (64,), [got, y] if name in MATH_2 else [got])
    with np.errstate(all="ignore"):
        if name in MATH:
            expected = MATH[name](x.astype(np.float64))
        else:
            expected = MATH_2[name](x.astype(np.float64), y.astype(np.float64))
    assert ulps(got, expected, dtype).max() <= 4


def results(p: int, q: int) -> tuple:
    """What the integer kernel computes, in C's arithmetic without its limits."""
    quotient = abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
    arithmetic = (p + q, p - q, p * q, quotient, p - q * quotient)
    return (*arithmetic, p & ~q, p < q, p >> (q & 7), p << (q & 7))


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers(code, kind):
    dtype = INTEGERS[kind]
    info = np.iinfo(dtype)
    rng = np.random.default_rng(4)
    x = rng.integers(info.min, info.max, 128, dtype, endpoint=True)
    y = rng.integers(info.min, info.max, 128, dtype, endpoint=True)
    x[:8], y[:8] = [info.min, info.max, 7, 0, 1, 100, 3, 9], [2, 3, 5, 1, 1, 7, 100, 3]
    y[y == 0] = 1
    if info.min < 0:
        y[y == -1] = 1
    z = np.zeros((128, 9), dtype)
    run(code, f"i_{name_of(kind)}", (2,), (64,), [x, y, z])
    expected = [results(int(p), int(q)) for p, q in zip(x, y, strict=True)]
    wrapped = [[int(v) & (2 ** (8 * z.itemsize) - 1) for v in row] for row in expected]
    unsigned = np.dtype(f"u{z.itemsize}")
    np.testing.assert_array_equal(z.view(unsigned), np.array(wrapped, unsigned))


def test_shuffles(code):
    x = np.arange(64, dtype=np.int32)
    run(code, "shuffles", (1,), (64,), [x])
    i = np.arange(64)
    down, up = np.where(i + 3 < 64, i + 3, i), np.where(i >= 5, i - 5, i)
    np.testing.assert_array_equal(x, 2016 + down * 1000 + up * 100000)


def test_votes(code):
    x = np.arange(1, 65, dtype=np.int32)
    y = np.zeros((64, 3), np.uint64)
    run(code, "votes", (1,), (64,), [x, y])
    assert (y[:, 0] == np.uint64(2**64 - 8)).all()
    assert (y[:, 1] == 3).all()
    bits = [6100 + (32 - int(v).bit_length()) + ((int(v) & -int(v)).bit_length()) for v in x]
    np.testing.assert_array_equal(y[:, 2], bits)


def test_halves(code):
    rng = np.random.default_rng(6)
    x = rng.standard_normal(64).astype(np.float16)
    y = rng.standard_normal(64).astype(ml_dtypes.bfloat16)
    z = np.zeros(64, np.float32)
    x_after, y_after = x.copy(), y.copy()
    run(code, "halves", (1,), (64,), [x_after, y_after, z])
    product = x.astype(np.float32) * y.astype(np.float32)
    np.testing.assert_array_equal(z, product)
    np.testing.assert_array_equal(y_after, (product + np.float32(1)).astype(ml_dtypes.bfloat16))
    exact = x.astype(np.float64) ** 2 + x.astype(np.float64)  # the compiler fuses it
    np.testing.assert_array_equal(x_after, exact.astype(np.float16))


def test_atomics(code):
    x, f = np.zeros(1, np.int32), np.zeros(1, np.float32)
    d, m = np.zeros(1), np.zeros(1, np.uint64)
    run(code, "atomics", (5,), (64,), [x, f, d, m])
    assert (x[0], f[0], d[0], m[0]) == (5 * 2016, 160.0, 80.0, 63 << 40)


def test_a_stack_in_scratch(code):
    assert load(code).kernels["stack"].scratch_size > 0
    x = np.arange(1, 65, dtype=np.float32)
    n = np.random.default_rng(7).integers(0, 40, 64, np.int32)
    out = x.copy()
    run(code, "stack", (1,), (64,), [out, n])
    np.testing.assert_array_equal(out, x * n)

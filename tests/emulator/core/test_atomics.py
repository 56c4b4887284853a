"""Every atomic function of hipRTC, in memory, in LDS and by generic pointers, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from rocke_cupy.emulator import hiprtc, run

ROCM = ("7.0", "7.14")
MEMORIES = ("eager", "lazy")

# `p` points to the place, v is the operand; a comparison takes w first.
RELAXED = "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT"
INTEGERS = {
    "atomicAdd(p, v)": lambda old, v, w: old + v,
    "atomicSub(p, v)": lambda old, v, w: old - v,
    "atomicExch(p, v)": lambda old, v, w: v,
    "atomicMin(p, v)": lambda old, v, w: np.minimum(old, v),
    "atomicMax(p, v)": lambda old, v, w: np.maximum(old, v),
    "atomicAnd(p, v)": lambda old, v, w: old & v,
    "atomicOr(p, v)": lambda old, v, w: old | v,
    "atomicXor(p, v)": lambda old, v, w: old ^ v,
    "atomicCAS(p, w, v)": lambda old, v, w: np.where(old == w, v, old),
}
BUILTINS = {
    f"__hip_atomic_fetch_add(p, v, {RELAXED})": INTEGERS["atomicAdd(p, v)"],
    f"__hip_atomic_fetch_min(p, v, {RELAXED})": INTEGERS["atomicMin(p, v)"],
    f"__hip_atomic_fetch_max(p, v, {RELAXED})": INTEGERS["atomicMax(p, v)"],
    f"__hip_atomic_fetch_and(p, v, {RELAXED})": INTEGERS["atomicAnd(p, v)"],
    f"__hip_atomic_fetch_or(p, v, {RELAXED})": INTEGERS["atomicOr(p, v)"],
    f"__hip_atomic_fetch_xor(p, v, {RELAXED})": INTEGERS["atomicXor(p, v)"],
    f"__hip_atomic_exchange(p, v, {RELAXED})": INTEGERS["atomicExch(p, v)"],
    "compare_exchange(p, w, v)": INTEGERS["atomicCAS(p, w, v)"],
}
FLOATS = {
    "atomicAdd(p, v)": lambda old, v, w: old + v,
    "atomicSub(p, v)": lambda old, v, w: old - v,
    "atomicExch(p, v)": lambda old, v, w: v,
    "atomicMin(p, v)": lambda old, v, w: np.minimum(old, v),
    "atomicMax(p, v)": lambda old, v, w: np.maximum(old, v),
    "atomicCAS(p, w, v)": lambda old, v, w: np.where(old == w, v, old),
    "unsafeAtomicAdd(p, v)": lambda old, v, w: old + v,
    "unsafeAtomicMin(p, v)": lambda old, v, w: np.minimum(old, v),
    "unsafeAtomicMax(p, v)": lambda old, v, w: np.maximum(old, v),
    f"__hip_atomic_fetch_add(p, v, {RELAXED})": lambda old, v, w: old + v,
}
WRAPPING = {
    "inc": lambda old, v, w: np.where(old >= v, 0, old + 1),
    "dec": lambda old, v, w: np.where((old == 0) | (old > v), v, old - 1),
}
TYPES = {
    "int": np.int32, "unsigned": np.uint32, "long long": np.int64,
    "unsigned long long": np.uint64, "unsigned long": np.uint64, "float": np.float32,
    "double": np.float64, "fp16_pair": np.float16, "bf16_pair": ml_dtypes.bfloat16,
}  # fmt: skip
CASES = [
    *[("int", call, expected) for call, expected in INTEGERS.items()],
    *[("unsigned", call, expected) for call, expected in INTEGERS.items()],
    *[("unsigned long long", call, expected) for call, expected in INTEGERS.items()],
    *[("long long", call, expected) for call, expected in BUILTINS.items()],
    *[("float", call, expected) for call, expected in FLOATS.items()],
    *[("double", call, expected) for call, expected in FLOATS.items()],
    *[("unsigned", f"atomic{n.title()}(p, v)", expected) for n, expected in WRAPPING.items()],
    *[
        ("unsigned long", f'__builtin_amdgcn_atomic_{n}64(p, v, __ATOMIC_RELAXED, "agent")', result)
        for n, result in WRAPPING.items()
    ],
    ("fp16_pair", "__builtin_amdgcn_flat_atomic_fadd_v2f16(p, v)", lambda old, v, w: old + v),
    ("bf16_pair", "__builtin_amdgcn_flat_atomic_fadd_v2bf16(p, v)", lambda old, v, w: old + v),
]

# Rows of 64: in memory, in LDS, and where a generic pointer leads to either; each with and without
# the use of the result.
HEAD = """
typedef _Float16 fp16_pair __attribute__((ext_vector_type(2)));
typedef short bf16_pair __attribute__((ext_vector_type(2)));
template <class T> __device__ T compare_exchange(T* p, T expected, T value) {
    __hip_atomic_compare_exchange_strong(p, &expected, value, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST,
                                         __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}
"""
KERNEL = """
extern "C" __global__ __launch_bounds__(64)
void k{number}({kind}* x, {kind}* old, const {kind}* values, const {kind}* others) {{
    __shared__ {kind} tile[256];
    int i = threadIdx.x;
    {kind} v = values[i], w = others[i];
    for (int row = 0; row < 4; row++) tile[64 * row + i] = x[64 * (row + 2) + i];
    __syncthreads();
    {kind} *used[] = {{&x[i], &tile[i], i & 1 ? &x[256 + i] : &tile[128 + i]}};
    {kind} *unused[] = {{&x[64 + i], &tile[64 + i], i & 1 ? &x[320 + i] : &tile[192 + i]}};
    #pragma unroll
    for (int place = 0; place < 3; place++) {{
        {{ {kind}* p = used[place]; old[128 * place + i] = {call}; }}
        {{ {kind}* p = unused[place]; (void){call}; }}
    }}
    __syncthreads();
    for (int row = 0; row < 4; row++)
        if (row < 2 || !(i & 1)) x[64 * (row + 2) + i] = tile[64 * row + i];
}}
"""


@pytest.fixture(scope="module", params=ROCM)
def code(request) -> bytes:
    kernels = [
        KERNEL.format(number=number, kind=kind, call=call)
        for number, (kind, call, _) in enumerate(CASES)
    ]
    return hiprtc.compile(HEAD + "".join(kernels), rocm=request.param).code


def operands(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Six rows of memory, the operands and the values to compare with: most equal, all exact."""
    dtype = TYPES[kind]
    shape = (8, 64, 2) if kind in ("fp16_pair", "bf16_pair") else (8, 64)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        drawn = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
        small = rng.integers(0, 4, shape).astype(dtype)
        drawn = np.where(rng.random(shape) < 0.5, drawn, small)
    else:
        drawn = rng.integers(-100, 100, shape).astype(dtype)
    drawn[7] = np.where(rng.random(shape[1:]) < 0.7, drawn[0], drawn[7])
    drawn[:6] = drawn[0]
    return drawn


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{k} {c[:40]}" for k, c, _ in CASES])
def test_old_and_new_value(code, number, memory, rng):
    kind, _, expected = CASES[number]
    drawn = operands(kind, rng)
    x, old = drawn[:6].copy(), np.zeros_like(drawn[:6])
    v, w = drawn[6].copy(), drawn[7].copy()
    report = run(code, f"k{number}", (1,), (64,), [x, old, v, w], memory=memory)
    for family in ("global_atomic_*", "flat_atomic_*", "ds_*"):
        assert report.count(family) >= 2, family
    with np.errstate(over="ignore"):
        wanted = expected(drawn[0], v, w).astype(x.dtype)
    np.testing.assert_array_equal(x, np.stack([wanted] * 6))
    np.testing.assert_array_equal(old[::2], drawn[:6:2])


COUNT = """
#define LDS __attribute__((address_space(3)))
extern "C" __global__ __launch_bounds__(64) void k(int* out) {
    __shared__ int places[2];
    if (threadIdx.x < 2) places[threadIdx.x] = 100;
    __syncthreads();
    if (threadIdx.x % 3 == 0) {
        out[threadIdx.x] = __builtin_amdgcn_ds_append((LDS int*)&places[1]);
        out[64 + threadIdx.x] = __builtin_amdgcn_ds_consume((LDS int*)&places[0]);
    }
    __syncthreads();
    if (threadIdx.x < 2) out[128 + threadIdx.x] = places[threadIdx.x];
}
"""


@pytest.mark.parametrize("rocm", ROCM)
def test_append_and_consume_count_the_lanes_that_are_on(rocm):
    out = np.zeros(130, np.int32)
    run(hiprtc.compile(COUNT, rocm=rocm).code, "k", (1,), (64,), [out])
    np.testing.assert_array_equal(out[:128].reshape(2, 64)[:, ::3], 100)
    assert out[128:].tolist() == [100 - 22, 100 + 22]

"""Comparisons: every predicate on every kind of pair, masks under EXEC."""

import numpy as np
import pytest

from rocke_cupy.emulator.step import KEEP_DENORMALS, State, step

NAN = float("nan")
INF = float("inf")
FLOAT_PAIRS = [
    (1.0, 2.0), (2.0, 1.0), (1.0, 1.0), (0.0, -0.0), (NAN, 1.0), (1.0, NAN), (-INF, INF),
]  # fmt: skip
FLOATS = {
    "f": lambda a, b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "lg": lambda a, b: a < b or a > b,
    "ge": lambda a, b: a >= b,
    "o": lambda a, b: a == a and b == b,
    "u": lambda a, b: a != a or b != b,
    "nge": lambda a, b: not a >= b,
    "nlg": lambda a, b: not (a < b or a > b),
    "ngt": lambda a, b: not a > b,
    "nle": lambda a, b: not a <= b,
    "neq": lambda a, b: a != b,
    "nlt": lambda a, b: not a < b,
    "tru": lambda a, b: True,
}
INTEGERS = {
    "f": lambda a, b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "t": lambda a, b: True,
}
DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
}  # fmt: skip


def put(state: State, register: int, values: list, dtype: type) -> None:
    array = np.array(values, dtype)
    words = array.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[array.itemsize]).astype(np.uint64)
    state.v[register, : len(values)] = words & 0xFFFFFFFF
    state.v[register + 1, : len(values)] = words >> 32


def mask(text: str, state: State) -> int:
    step(text, state)
    return state.get64("vcc")


@pytest.mark.parametrize("kind", ["f32", "f64", "f16"])
@pytest.mark.parametrize("predicate", FLOATS)
def test_floats(kind, predicate):
    state = State()
    state.set64("exec", (1 << len(FLOAT_PAIRS)) - 1)
    for register, side in ((2, 0), (4, 1)):
        put(state, register, [pair[side] for pair in FLOAT_PAIRS], DTYPES[kind])
    first, second = ("v[2:3]", "v[4:5]") if kind == "f64" else ("v2", "v4")
    expected = sum(FLOATS[predicate](*pair) << k for k, pair in enumerate(FLOAT_PAIRS))
    assert mask(f"v_cmp_{predicate}_{kind}_e64 vcc, {first}, {second}", state) == expected


@pytest.mark.parametrize("kind", ["i16", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("predicate", INTEGERS)
def test_integers(kind, predicate):
    info = np.iinfo(DTYPES[kind])
    pairs = [(0, 1), (1, 0), (5, 5), (info.min, info.max), (info.max, info.min)]
    state = State()
    state.set64("exec", (1 << len(pairs)) - 1)
    for register, side in ((2, 0), (4, 1)):
        put(state, register, [pair[side] for pair in pairs], DTYPES[kind])
    first, second = ("v[2:3]", "v[4:5]") if kind.endswith("64") else ("v2", "v4")
    expected = sum(INTEGERS[predicate](*pair) << k for k, pair in enumerate(pairs))
    assert mask(f"v_cmp_{predicate}_{kind}_e64 vcc, {first}, {second}", state) == expected


def test_lanes_that_are_off_give_zero():
    state = State()
    state.set64("exec", 0xF0F0)
    state.set64("vcc", 0xFFFFFFFF_FFFFFFFF)
    assert mask("v_cmp_eq_u32_e32 vcc, v2, v3", state) == 0xF0F0


def test_any_pair_of_scalar_registers_takes_the_mask():
    state = State()
    state.v[2] = np.arange(64)
    step("v_cmp_gt_u32_e64 s[10:11], 3, v2", state)
    assert state.get64(10) == 0b111
    assert state.get64("vcc") == 0


def test_cmpx_writes_exec_too():
    state = State()
    state.v[2] = np.arange(64)
    assert mask("v_cmpx_gt_u32_e32 vcc, 3, v2", state) == 0b111
    assert state.get64("exec") == 0b111


def test_signs_are_applied_before_comparing():
    state = State()
    state.floats(2)[:] = -3.0
    state.floats(3)[:] = 2.0
    assert mask("v_cmp_gt_f32_e64 vcc, |v2|, -v3", state) == 0xFFFFFFFF_FFFFFFFF
    assert mask("v_cmp_gt_f32_e64 vcc, v2, -v3", state) == 0


def test_denormals_compare_as_zero_when_they_are_flushed():
    state = State()
    state.v[2] = 1
    assert mask("v_cmp_eq_f32_e32 vcc, 0, v2", state) == 0xFFFFFFFF_FFFFFFFF
    step("v_cmp_eq_f32_e32 vcc, 0, v2", state, mode=KEEP_DENORMALS)
    assert state.get64("vcc") == 0


@pytest.mark.parametrize(
    ("bits", "which"),
    [(0x7F800001, 0), (0x7FC00000, 1), (0xFF800000, 2), (0xBF800000, 3), (0x80000001, 4),
     (0x80000000, 5), (0, 6), (1, 7), (0x3F800000, 8), (0x7F800000, 9)],
)  # fmt: skip
def test_classes(bits, which):
    state = State()
    state.v[2] = bits
    state.v[3] = 1 << np.arange(64) % 32
    expected = (1 << which) | (1 << which + 32)
    assert mask("v_cmp_class_f32_e64 vcc, v2, v3", state) == expected

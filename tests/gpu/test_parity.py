"""Results on the GPU against the error budget, NaN around every buffer.

The grid is thin where two parameters cannot meet in the code: head dims and dtypes change the
tile, lengths and masks the range of keys. Each length meets each mask, and each tile each of the
lengths around its edges.
"""

import itertools

import pytest
from helpers.gpu import assert_parity
from helpers.problems import Case

pytestmark = pytest.mark.gpu

LENGTHS = (1, 63, 64, 65, 255, 256, 257, 640)
MASKS = {
    "full": dict(),
    "causal": dict(causal=True),
    "top-left": dict(causal=True, alignment="top_left"),
}

SQUARE = [
    Case(n, n, head_dim=d, dtype=dtype, heads=4, kv_heads=1, **MASKS[mask])
    for n, (d, dtype, mask) in itertools.product(
        (65, 257), itertools.product((64, 128), ("bf16", "fp16"), ("full", "causal"))
    )
]

# Pairs of lengths, shorter and longer queries, with each neighbour of a tile's edge on each side.
PAIRS = [
    (1, 1), (1, 640), (640, 1), (63, 257), (257, 63), (64, 65), (65, 64), (255, 256), (256, 255),
    (64, 640), (640, 256), (256, 64), (63, 63), (255, 65), (1, 65), (257, 640),
]  # fmt: skip

CROSS = [
    Case(sq, skv, heads=2, kv_heads=1, head_dim=(64, 128)[i % 2], **mask)
    for i, (sq, skv) in enumerate(PAIRS)
    for mask in MASKS.values()
]

HEADS = [
    Case(70, 130, heads=h, kv_heads=hkv, batch=2, causal=causal)
    for h, hkv in ((4, 4), (4, 1), (6, 2), (3, 1), (5, 5))
    for causal in (False, True)
]

LARGE = [
    Case(130, 200, heads=1, kv_heads=1, amplitude=amplitude, dtype=dtype, causal=causal, head_dim=d)
    for amplitude in (8, 64)
    for dtype in ("bf16", "fp16")
    for causal, d in ((False, 64), (True, 128))
]

HEAD_DIMS = [
    Case(33, 65, head_dim=d, causal=True, dtype=("bf16", "fp16")[i % 2])
    for i, d in enumerate((8, 16, 24, 32, 40, 48, 56, 72, 80, 96, 120, 136, 160, 192, 248, 256))
]

WINDOWS = [
    Case(sq, skv, window=window, heads=1, kv_heads=1, causal=causal, alignment=alignment)
    for (sq, skv), window, causal, alignment in [
        ((200, 200), (0, 0), False, "bottom_right"),
        ((200, 300), (1, 0), True, "bottom_right"),
        ((300, 200), (63, 64), False, "bottom_right"),
        ((300, 700), (64, 63), False, "top_left"),
        ((300, 700), (100, -1), True, "bottom_right"),
        ((257, 257), (-1, 3), False, "bottom_right"),
        ((257, 400), (None, 70), False, "top_left"),
        ((400, 257), (300, 0), False, "top_left"),
        ((640, 640), (128, 128), False, "bottom_right"),
        ((640, 640), (10_000, 0), False, "bottom_right"),
        ((5, 640), (2, 2), True, "bottom_right"),
    ]
]

SCALES = [
    Case(65, 65, heads=1, kv_heads=1, scale=scale)
    for scale in (0.0, -0.125, 1.0, 1e-30, 1e11, -6e33)
]

KEY_LENGTHS = [
    Case(70, 150, batch=4, kv_lens=(150, 1, 0, 64), heads=2, kv_heads=1, **mask)
    for mask in (*MASKS.values(), dict(window=(20, 5)))
]

ALL = [*SQUARE, *CROSS, *HEADS, *LARGE, *HEAD_DIMS, *WINDOWS, *SCALES, *KEY_LENGTHS]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_within_the_error_budget(case, cp):
    assert_parity(case, cp)


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("amplitude", [1, 8])
def test_many_tiles_with_each_tail(head_dim, amplitude, cp):
    assert_parity(
        Case(1024, 1024, heads=2, kv_heads=1, head_dim=head_dim, causal=True, amplitude=amplitude),
        cp,
    )
    assert_parity(Case(100, 1023, heads=1, kv_heads=1, head_dim=head_dim, amplitude=amplitude), cp)


@pytest.mark.parametrize("case", [Case(70, 90, causal=True, batch=2, heads=2)], ids=str)
def test_with_gaps_of_nan_between_rows(case, cp):
    assert_parity(case, cp, gaps=True)


def test_no_keys_at_all(cp):
    assert_parity(Case(33, 0, batch=2, heads=2), cp)

"""Where the elements of matrix instructions lie, by the CDNA4 manual (7.1.4, 7.1.5, 7.5)."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

LANES = 64
FORMATS = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i8": np.int8,
    "fp8": ml_dtypes.float8_e4m3fn,
    "bf8": ml_dtypes.float8_e5m2,
    "fp6": ml_dtypes.float6_e2m3fn,
    "bf6": ml_dtypes.float6_e3m2fn,
    "fp4": ml_dtypes.float4_e2m1fn,
}
BITS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16, "fp6": 6, "bf6": 6, "fp4": 4}
BITS |= dict.fromkeys(("i8", "fp8", "bf8"), 8)


@dataclass(frozen=True)
class Shape:
    """A product: rows (and columns), values of k, matrices, formats of A and B.

    `run` is the number of successive values of k in a lane, where that is not all of them.
    """

    size: int
    k: int
    a: str
    b: str
    blocks: int = 1
    run: int = 0

    @property
    def integer(self):
        return self.a == "i8"

    @property
    def result(self):
        return np.float64 if self.a == "f64" else np.int32 if self.integer else np.float32


def random_matrix(rng, fmt, shape):
    """Finite numbers of a format, all magnitudes alike for the small ones."""
    dtype = FORMATS[fmt]
    if fmt == "i8":
        return rng.integers(-128, 128, shape, np.int8)
    if BITS[fmt] > 8:
        return rng.standard_normal(shape).astype(dtype)
    matrix = rng.integers(0, 1 << BITS[fmt], shape, np.uint8).view(dtype)
    return np.where(np.isfinite(matrix.astype(np.float32)), matrix, np.zeros((), dtype))


def codes(matrix, fmt):
    """The bits of each element."""
    return matrix.view(f"u{max(BITS[fmt] // 8, 1)}").astype(np.uint64) & np.uint64(
        2 ** BITS[fmt] - 1
    )


def registers_of_items(items, bits):
    """Registers of the items of each lane, packed from bit 0 on."""
    words = np.zeros((-(-len(items) * bits // 32) + 1, LANES), np.uint64)
    for number, item in enumerate(items):
        for start in range(0, bits, 32):
            word, shift = divmod(number * bits + start, 32)
            part = (item >> np.uint64(start) & np.uint64(0xFFFFFFFF)) << np.uint64(shift)
            words[word] |= part & np.uint64(0xFFFFFFFF)
            words[word + 1] |= part >> np.uint64(32)
    return words[:-1].astype(np.uint32)


def spread(matrix, fmt, shape: Shape):
    """Registers of A[block, row, k], or of B[block, column, k]."""
    blocks, size, k_all = matrix.shape
    groups = LANES // (size * blocks)
    each = k_all // groups
    run = shape.run or each
    values = codes(matrix, fmt)
    items = np.zeros((each, LANES), np.uint64)
    for b in range(blocks):
        for k in range(k_all):
            turn, group = divmod(k // run, groups)
            lane = size * (b + blocks * group)
            items[turn * run + k % run, lane : lane + size] = values[b, :, k]
    return registers_of_items(items, BITS[fmt])


def places_of_result(shape: Shape):
    """Item and lane of D[block, row, column], as arrays."""
    high = 1 if shape.a == "f64" else 4
    size = shape.size
    b, i, j = np.indices((shape.blocks, size, size))
    together = max(1, LANES * high // (size * size))
    rows = LANES // together // size
    groups = size // (high * rows)
    item = i % high + high * (i // (high * rows) + groups * (b // together))
    return item, j + size * (i // high % rows + rows * (b % together))


def scatter(matrix, shape: Shape):
    """Registers of C[block, row, column]."""
    item, lane = places_of_result(shape)
    items = np.zeros((item.max() + 1, LANES), shape.result)
    items[item, lane] = matrix
    if shape.result is not np.float64:
        return items.view(np.uint32)
    halves = items.view(np.uint32).reshape(len(items), LANES, 2)
    return halves.transpose(0, 2, 1).reshape(-1, LANES)


def gather(registers, shape: Shape):
    """D[block, row, column] of its registers."""
    item, lane = places_of_result(shape)
    if shape.result is np.float64:
        halves = registers.reshape(-1, 2, LANES).transpose(0, 2, 1)
        return np.ascontiguousarray(halves).view(np.float64)[..., 0][item, lane]
    return registers.view(shape.result)[item, lane]


def product(a, b, c):
    """C[block, row, column] + A[block, row, k] B[block, column, k], rounded or wrapped once."""
    wide = np.int64 if c.dtype == np.int32 else np.float64
    total = c.astype(wide) + np.einsum("bik,bjk->bij", a.astype(wide), b.astype(wide))
    return total.astype(c.dtype)

"""Host computations behind the hipBLAS and hipRAND stand-ins, by NumPy on device memory."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from rocke_cupy.emulator.device import hip_abi as abi

# hipDataType
_DTYPES = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float64),
    2: np.dtype(np.float16),
    4: np.dtype(np.complex64),
    5: np.dtype(np.complex128),
    14: np.dtype(ml_dtypes.bfloat16),
}


class NotSupported(NotImplementedError):  # noqa: N818 (reads as what it is)
    """The request is valid, but not one that the virtual device can do."""


def _array(address: int, count: int, dtype: np.dtype) -> np.ndarray:
    """View device memory, which is host memory here, as an array."""
    if count == 0:
        return np.empty(0, dtype)
    if not address:
        raise ValueError("an operand is a null pointer")
    if count * dtype.itemsize > (room := abi.runtime().rocke_room(address)):
        raise ValueError(
            f"an operand at {address:#x} has {count * dtype.itemsize} bytes, but its allocation "
            f"ends after {room} (0: freed, or out of bounds)"
        )
    memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.ndarray(count, dtype, memoryview(memory))


def _dtype(number: int) -> np.dtype:
    if number not in _DTYPES:
        raise NotSupported(f"matrix products of hipDataType {number} are not supported")
    return _DTYPES[number]


def _matrix(address: int, rows: int, columns: int, leading: int, dtype: np.dtype) -> np.ndarray:
    """View a column-major matrix; its last column ends with the matrix, not with the stride."""
    flat = _array(address, leading * (columns - 1) + rows, dtype)
    strides = (dtype.itemsize, leading * dtype.itemsize)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), strides)


def _operand(
    address: int, operation: int, rows: int, columns: int, leading: int, dtype: np.dtype
) -> np.ndarray:
    """Return op(X), `rows` by `columns`, in the precision that it is multiplied in."""
    if operation == 0:
        stored = _matrix(address, rows, columns, leading, dtype)
    else:
        stored = _matrix(address, columns, rows, leading, dtype).T
    if dtype.itemsize == 2:
        stored = stored.astype(np.float32)
    return stored.conj() if operation == 2 else stored


def matrix_product(pointer: Any) -> None:
    """Compute C = alpha op(A) op(B) + beta C for every matrix of the batch.

    16-bit matrices are multiplied and summed in float32, as the matrix cores do.
    """
    p = pointer.contents
    if p.m == 0 or p.n == 0 or p.batch == 0:
        return
    dtype_a, dtype_b, dtype_c = _dtype(p.type_a), _dtype(p.type_b), _dtype(p.type_c)
    alpha = _array(p.alpha, 1, _dtype(p.type_scalar))[0]
    beta = _array(p.beta, 1, _dtype(p.type_scalar))[0]
    for index in range(p.batch):
        c = _matrix(_address(p, "c", index, dtype_c), p.m, p.n, p.ldc, dtype_c)
        result: Any = 0
        if p.k and alpha != 0:
            a = _operand(_address(p, "a", index, dtype_a), p.trans_a, p.m, p.k, p.lda, dtype_a)
            b = _operand(_address(p, "b", index, dtype_b), p.trans_b, p.k, p.n, p.ldb, dtype_b)
            result = alpha * (a @ b)
        if beta != 0:  # with beta 0 what C held is not read, NaN included
            result = result + beta * c
        c[...] = result


def _address(product: abi.MatrixProduct, name: str, index: int, dtype: np.dtype) -> int:
    base = getattr(product, name)
    if product.is_pointer_array:
        return int(_array(base, product.batch, np.dtype(np.uint64))[index])
    return base + index * getattr(product, f"stride_{name}") * dtype.itemsize


_generators: dict[int, np.random.Generator] = {}


def random_seed(pointer: Any) -> None:
    """Start the sequence of a generator at its seed and offset."""
    request = pointer.contents
    seed = (request.seed, request.offset)
    _generators[request.generator] = np.random.Generator(np.random.Philox(seed))


def random_draw(pointer: Any) -> None:
    """Fill device memory with the next numbers of a generator."""
    request = pointer.contents
    default = np.random.Generator(np.random.Philox((0, request.generator)))
    source = _generators.setdefault(request.generator, default)
    integers = request.distribution in (3, 4)
    dtype = np.dtype(f"{'u' if integers else 'f'}{request.bytes}")
    output = _array(request.output, request.count, dtype)
    if request.distribution == 0:
        output[:] = 1 - source.random(request.count, dtype)  # hipRAND draws from (0, 1]
    elif request.distribution == 3:
        output[:] = source.integers(0, 1 << 32, request.count, np.uint32)
    elif request.distribution == 4:
        output[:] = source.poisson(request.mean, request.count)
    else:
        normal = request.mean + request.deviation * source.standard_normal(request.count, dtype)
        output[:] = np.exp(normal) if request.distribution == 2 else normal

"""Building kernels ahead of their first use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..dense import build_attention_dense
from ..kernels.build import KernelSource, build
from ..kernels.rows import copy_kernel, merge_kernel
from ..rules.arrays import cupy_array_type
from ..rules.call import Problem, check_dense
from ..rules.numbers import check_flags, shown, whole_number
from ..rules.options import Options
from ..rules.shapes import check_head_dim
from ..select import select, variants_of_shape
from .config import last_words


def compile(  # noqa: A001 (public, as numba and re have it)
    head_dim: int,
    dtype: Any,
    *,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (-1, -1),
    varlen: bool = False,
    compute_dtype: Any = None,
) -> tuple[str, ...]:
    """Build all kernels that calls of one kind can need, whatever their shapes.

    A kernel is otherwise built at its first use, which takes about a second. CuPy keeps the
    result on disk, so a later process only loads it.

    Parameters
    ----------
    head_dim : int
        The last axis of the arrays.
    dtype : dtype
        Of the arrays: bfloat16, float16, or float32 and float64 with `compute_dtype`.
    causal, window_size
        As in `attention`. Only whether a side of the window is limited matters, not its width.
    varlen : bool
        For `attention_varlen`.
    compute_dtype
        As in `attention`.

    Returns
    -------
    tuple of str
        The kernels that are ready now on CuPy's current device.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        As `attention`.

    Examples
    --------
    >>> import cupy, rocke_cupy
    >>> names = rocke_cupy.compile(64, "float16", causal=True)
    >>> names[0]
    'rocke_attention_forward_d64_bn64_fp16_right_lazyrs_xcd_wpe2'
    """
    cupy = _cupy()
    problem = _problem(head_dim, dtype, causal, window_size, varlen, compute_dtype)
    kernels: dict[KernelSource, object] = {
        build_attention_dense(spec): spec for spec in variants_of_shape(select(problem))
    }
    # Layouts that the kernel cannot take, and keys that are split.
    narrow, wide = problem.compute_dtype, np.dtype(np.float32)
    result = narrow if problem.out_dtype == narrow else wide
    kernels[copy_kernel(problem.out_dtype, narrow)] = "a copy of q, k or v"
    kernels[copy_kernel(result, problem.out_dtype)] = "a copy to out"
    if not varlen:
        kernels[merge_kernel(wide, problem.out_dtype)] = "a merge of parts"
    device_id = cupy.cuda.runtime.getDevice()
    for source, purpose in kernels.items():
        build(source, device_id, purpose)
    return tuple(source.name for source in kernels)


def _cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            f"building kernels needs CuPy for ROCm, `pip install rocke_cupy[rocm7]`, and ROCm 7: "
            f"{last_words(error)}"
        ) from error
    if cupy_array_type() is None:
        raise ImportError(
            f"building kernels needs CuPy for ROCm, `pip install rocke_cupy[rocm7]`: {cupy!r} is "
            "not CuPy"
        )
    return cupy


def _problem(
    head_dim: Any, dtype: Any, causal: Any, window_size: Any, varlen: Any, compute_dtype: Any
) -> Problem:
    check_flags(varlen=varlen)
    message = f"head_dim={shown(head_dim)} must be a whole number, not negative"
    columns = whole_number(head_dim, message)
    if columns < 0:
        raise ValueError(message)
    check_head_dim(columns, f"head_dim={columns}")
    like = np.zeros((1, 1, 1, columns), _dtype(dtype))
    options = Options(causal=causal, window_size=window_size, compute_dtype=compute_dtype)
    return replace(check_dense(like, like, like, None, None, options).problem, varlen=varlen)


def _dtype(dtype: Any) -> np.dtype:
    try:
        # np.dtype(None) is float64.
        return np.dtype("no dtype" if dtype is None else dtype)
    except TypeError:
        raise TypeError(f"dtype={dtype!r} must be the dtype of an array") from None

"""Building kernels ahead of their first use, and telling what they would run on."""

from __future__ import annotations

import importlib.metadata
import platform
from dataclasses import replace
from typing import Any

import numpy as np

from ._arch import device_arch
from ._build import KernelSource, build
from ._cache import cache_dir
from ._rows import copy_kernel, merge_kernel
from .dense import build_attention_dense
from .rules.call import Problem, check_dense
from .rules.numbers import check_flags, whole_number
from .rules.options import Options
from .rules.shapes import check_head_dim
from .select import select, variants_of_shape


def compile(
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
    result = narrow if problem.dtype == narrow else wide
    kernels[copy_kernel(problem.dtype, narrow)] = "a copy of q, k or v"
    kernels[copy_kernel(result, problem.dtype)] = "a copy to out"
    if not varlen:
        kernels[merge_kernel(wide, problem.dtype)] = "a merge of parts"
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
            f"{_last_words(error)}"
        ) from error
    return cupy


def _problem(
    head_dim: Any, dtype: Any, causal: Any, window_size: Any, varlen: Any, compute_dtype: Any
) -> Problem:
    check_flags(varlen=varlen)
    message = f"head_dim={head_dim!r} must be a whole number, not negative"
    columns = whole_number(head_dim, message)
    if columns < 0:
        raise ValueError(message)
    check_head_dim(columns, f"head_dim={columns} is a head dim of {columns}")
    like = np.zeros((1, 1, 1, columns), _dtype(dtype))
    options = Options(causal=causal, window_size=window_size, compute_dtype=compute_dtype)
    return replace(check_dense(like, like, like, None, None, options).problem, varlen=varlen)


def _dtype(dtype: Any) -> np.dtype:
    try:
        # np.dtype(None) is float64.
        return np.dtype("no dtype" if dtype is None else dtype)
    except TypeError:
        raise TypeError(f"dtype={dtype!r} must be the dtype of an array") from None


def show_config() -> None:
    """Print versions, device, arch and cache folder, and whether the device is a virtual one.

    Examples
    --------
    >>> import rocke_cupy
    >>> rocke_cupy.show_config()  # doctest: +ELLIPSIS
    rocke_cupy ...
    """
    lines = {
        "rocke_cupy": _version("rocke_cupy"),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "ml_dtypes": _version("ml_dtypes"),
        **_gpu_lines(),
        "cache folder": _cache_line(),
    }
    width = max(map(len, lines))
    for name, value in lines.items():
        print(f"{name:<{width}}  {value}")


def _gpu_lines() -> dict[str, str]:
    try:
        import cupy
    except ImportError as error:
        return {"CuPy": f"cannot be imported ({_last_words(error)})", "device": "none"}
    lines = {"CuPy": cupy.__version__}
    if not cupy.cuda.is_available():
        return {**lines, "device": "none"}
    device_id = cupy.cuda.runtime.getDevice()
    properties = cupy.cuda.runtime.getDeviceProperties(device_id)
    lines["ROCm"] = str(cupy.cuda.runtime.runtimeGetVersion())
    lines["device"] = f"{device_id}, {properties['name'].decode()}"
    try:
        lines["arch"] = device_arch(device_id)
    except (NotImplementedError, ValueError) as error:
        lines["arch"] = str(error)
    lines["virtual"] = "yes, an emulator: right results, no speed" if _is_virtual() else "no"
    return lines


def _last_words(error: Exception) -> str:
    """Return the last line of a message that is not a frame drawn around it."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in reversed(lines) if line.strip("=- ")), type(error).__name__)


def _is_virtual() -> bool:
    from .emulator import device

    return device.active()


def _cache_line() -> str:
    try:
        return str(cache_dir())
    except OSError as error:
        return str(error)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed, a checkout"

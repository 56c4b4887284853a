"""Telling what an installation is and would run on."""

from __future__ import annotations

import importlib.metadata
import platform

import numpy as np

from ..arch import device_arch, is_virtual
from ..cache import cache_dir
from ..rules.arrays import cupy_array_type
from ..version import __version__


def show_config() -> None:
    """Print versions, device, arch and cache folder, and whether the device is a virtual one.

    Examples
    --------
    >>> import rocke_cupy
    >>> rocke_cupy.show_config()  # doctest: +ELLIPSIS
    rocke_cupy ...
    """
    lines = {
        "rocke_cupy": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "ml_dtypes": importlib.metadata.version("ml_dtypes"),
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
        return {"CuPy": f"cannot be imported ({last_words(error)})", "device": "none"}
    # A folder of that name, a stub or a mock imports as well.
    version = getattr(cupy, "__version__", None)
    if not isinstance(version, str) or cupy_array_type() is None:
        return {"CuPy": f"{cupy!r} is not CuPy: it has no arrays", "device": "none"}
    lines = {"CuPy": version}
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
    lines["virtual"] = "yes, an emulator: right results, no speed" if is_virtual() else "no"
    return lines


def last_words(error: Exception) -> str:
    """Return the last line of a message that is not a frame drawn around it."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in reversed(lines) if line.strip("=- ")), type(error).__name__)


def _cache_line() -> str:
    try:
        return str(cache_dir())
    except OSError as error:
        return str(error)

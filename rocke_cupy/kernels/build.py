"""From a kernel's source to something that launches, once for each device and kernel."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from ..arch import device_arch, require_supported
from ..cache import cache_dir, publish

# The language CuPy would choose as well, stated since it changed between CuPy's versions.
OPTIONS = ("--std=c++17", "-O3")


class KernelBuildError(RuntimeError):
    """A kernel did not compile. The message has its spec, its source's path and the log."""


class KernelSource(NamedTuple):
    """A kernel as hipRTC gets it."""

    name: str
    """The ``extern "C"`` entry."""
    code: str
    """The complete source text; it includes no other file."""
    options: tuple[str, ...]
    """The compiler's options, less the arch, which is the device's."""


_built: dict[tuple[int, KernelSource], Any] = {}


def build(source: KernelSource, device_id: int, spec: object) -> Any:
    """Return a source's ``cupy.cuda.Function``, compiled for a device or taken from memory.

    Parameters
    ----------
    source : KernelSource
    device_id : int
    spec : object
        What the kernel is for; its repr is shown if the build fails.
    """
    kernel = _built.get((device_id, source))
    if kernel is None:
        kernel = _built[device_id, source] = _compile(source, device_id, spec)
    return kernel


def _compile(source: KernelSource, device_id: int, spec: object) -> Any:
    import cupy

    arch = device_arch(device_id)
    require_supported(arch, "rocke_cupy")
    # CuPy's disk cache tells archs apart by compute capability only; the option is in its key.
    options = (*source.options, f"--offload-arch={arch}")
    module = cupy.RawModule(code=source.code, options=options)
    try:
        with cupy.cuda.Device(device_id):
            # Not the RawKernel, which looks its function up anew at each launch.
            return module.get_function(source.name).kernel
    except cupy.cuda.compiler.CompileException as error:
        raise KernelBuildError(
            f"hipRTC could not compile {source.name} for {arch}.\n"
            f"Spec: {spec}\nOptions: {' '.join(options)}\n"
            f"Source: {_save(source)}\nLog:\n{error}"
        ) from None
    except (FileNotFoundError, RuntimeError, ImportError) as error:
        raise _explained(error) from error


def _save(source: KernelSource) -> Path | str:
    """Keep a source that did not compile, for the reader of the message."""
    digest = hashlib.sha256(source.code.encode()).hexdigest()[:16]
    try:
        path = cache_dir() / "failed" / f"{source.name}-{digest}.hip"
        if not path.exists():
            publish(path, lambda unfinished: _write(unfinished, source.code))
        return path
    except OSError as error:
        return f"not saved, {error}"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _explained(error: Exception) -> Exception:
    """Say what to install when CuPy does not find its compiler; else return the error as it is."""
    if isinstance(error, FileNotFoundError) and shutil.which("hipcc") is None:
        missing = "CuPy asks hipcc for its include folders, and there is no hipcc on PATH"
    elif "hiprtc" in str(error).lower() or "ROCm root" in str(error):
        missing = f"CuPy cannot load ROCm's run-time compiler ({error})"
    else:
        return error
    return KernelBuildError(
        f"{missing}. Install ROCm 7 with its developer tools (hipcc, hiprtc), put its bin folder "
        "on PATH and set ROCM_HOME to its root, often /opt/rocm"
    )

"""Compile HIP source with the real hipRTC, as CuPy does, without CuPy and without a GPU."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocke_cupy import cache
from rocke_cupy.emulator.rocm.clang import Clang, chosen_clang, compiles
from rocke_cupy.emulator.rocm.tools import RocmTools, chosen_version, rocm_tools

_WORKER = Path(__file__).parent / "rocm" / "hiprtc_worker.py"
_CACHE_FORMAT = "1"
# What CuPy 14 on ROCm appends after the user's options; it cannot be turned off there.
_FLUSH_DENORMALS = "-fcuda-flush-denormals-to-zero"


class CompileError(RuntimeError):
    """The compiler refused the source.

    Attributes
    ----------
    log : str
        What the compiler said.
    options : tuple of str
        The options it was given.
    """

    def __init__(self, message: str, log: str, options: tuple[str, ...]) -> None:
        super().__init__(message)
        self.log = log
        self.options = options


@dataclass(frozen=True)
class Compiled:
    """A compiled program: the ELF code object, and the compiler's warnings and remarks."""

    code: bytes
    log: str


def compile(  # noqa: A001 (used as hiprtc.compile)
    source: str,
    options: Sequence[str] = (),
    *,
    rocm: str | None = None,
    name: str = "kernel.hip",
    clang: str | None = None,
) -> Compiled:
    """Compile HIP source to a gfx950 code object, with the options that CuPy would give.

    Parameters
    ----------
    source : str
        One translation unit.
    options : sequence of str
        Compiler options. ``--std=c++17`` and ``--offload-arch=gfx950`` are added unless given;
        ``-fcuda-flush-denormals-to-zero`` comes last, as under CuPy.
    rocm : str, optional
        ROCm version, as for `rocke_cupy.emulator.rocm.tools.rocm_tools`.
    name : str
        File name shown in diagnostics.
    clang : str, optional
        What compiles the kernels of this package in hipRTC's place, "ziglang" or a program, as for
        `rocke_cupy.emulator.rocm.clang.chosen_clang`. Other sources are hipRTC's all the same.

    Returns
    -------
    Compiled

    Raises
    ------
    ClangError
        If that clang cannot take hipRTC's place.
    CompileError
        If the compiler refuses the source or the options.
    """
    full_options = _as_cupy_does(options)
    other = chosen_clang(clang) if compiles(source) else None
    tools = rocm_tools(rocm)
    compiler = other.digest if other else tools.folder.name
    entry = cache.cache_dir() / "hiprtc" / _digest(source, full_options, name, compiler)

    def build(unfinished: Path) -> None:
        unfinished.mkdir()
        # The source also stays there for whoever looks.
        (unfinished / "source.hip").write_text(source)
        if other:
            _compile_with(other, full_options, unfinished)
        else:
            _compile(source, full_options, name, tools, unfinished)

    if not entry.is_dir():
        cache.publish(entry, build)
    return Compiled((entry / "code").read_bytes(), (entry / "log").read_text(errors="replace"))


def compiler_name(rocm: str | None = None) -> str:
    """Return in words what compiles the kernels of this package here."""
    clang = chosen_clang()
    return clang.version if clang else f"ROCm {chosen_version(rocm)}"


def _as_cupy_does(options: Sequence[str]) -> tuple[str, ...]:
    if isinstance(options, str):
        raise TypeError(f"options={options!r} must be a sequence of strings, not one string")
    for option in options:
        if option in ("-fgpu-rdc", "-rdc=true", "-dc"):
            raise ValueError(
                f"options has {option!r}: separate compilation gives no loadable code object"
            )
    full = list(options)
    if not any(re.match(r"--?std=", option) for option in full):
        full.append("--std=c++17")
    architectures = [
        option for option in full if re.match(r"--(offload-arch|gpu-architecture)=", option)
    ]
    if not architectures:
        full.append("--offload-arch=gfx950")
    elif len(architectures) > 1:
        raise ValueError(
            f"options has {' and '.join(architectures)}: "
            "hipRTC compiles for one architecture at a time"
        )
    elif not re.search(r"=gfx[0-9a-f]{3,4}(:(sramecc|xnack)[+-])*$", architectures[0]):
        # hipRTC of ROCm 7.0 crashes on a name that it does not know.
        raise ValueError(
            f"options has {architectures[0]!r}, which does not name an architecture such as gfx950"
        )
    return (*full, _FLUSH_DENORMALS)


def _digest(source: str, options: tuple[str, ...], name: str, compiler: str) -> str:
    parts = json.dumps([_CACHE_FORMAT, source, options, name, compiler])
    return hashlib.sha256(parts.encode()).hexdigest()[:40]


def _compile_with(other: Clang, options: tuple[str, ...], folder: Path) -> None:
    """Compile ``source.hip`` of a folder to ``code`` and ``log`` there, with another clang."""
    done = other.compile(folder, options)
    (folder / "log").write_text(done.stderr)
    if done.returncode:
        said = f"{other.version} refused the source; options {' '.join(options)}\n{done.stderr}"
        raise CompileError(said.rstrip(), done.stderr, options)


def _compile(
    source: str, options: tuple[str, ...], name: str, tools: RocmTools, folder: Path
) -> None:
    """Compile a source to ``code`` and ``log`` in a folder, with hipRTC."""
    request = {
        "source": source,
        "options": options,
        "name": name,
        "library": str(tools.hiprtc),
        "folder": str(folder),
    }
    # comgr has a cache of its own, in the user's home; ours makes it useless.
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tools.folder), "AMD_COMGR_CACHE": "0"}
    worker = subprocess.run(
        [sys.executable, "-I", str(_WORKER)],
        input=json.dumps(request),
        text=True,
        capture_output=True,
        env=environment,
        cwd=tempfile.gettempdir(),
    )
    log = (folder / "log").read_text(errors="replace").strip() if (folder / "log").exists() else ""
    if "No space left on device" in worker.stderr:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
    if worker.returncode or not (folder / "code").stat().st_size:
        raise CompileError(_why_it_failed(worker, log, options, tools), log, options)


def _why_it_failed(
    worker: subprocess.CompletedProcess[str], log: str, options: tuple[str, ...], tools: RocmTools
) -> str:
    said = "\n".join(text for text in (log, worker.stderr.strip()) if text)
    if worker.returncode == 0:
        reason = "gave no code"
    elif worker.returncode < 0:
        reason = f"crashed ({signal.Signals(-worker.returncode).name})"
    elif log:
        reason = "refused the source"
    else:  # the compiler ends the process on an option that only its back end reads
        reason = "ended early, as it does on an unknown -mllvm option"
    return f"hipRTC of ROCm {tools.version} {reason}; options {' '.join(options)}\n{said}".rstrip()

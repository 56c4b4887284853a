"""The libraries that stand in for ROCm's: C sources, and a stub for all else that CuPy links."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from rocke_cupy import cache
from rocke_cupy.emulator.core import compiler
from rocke_cupy.emulator.device.cupy_imports import Imports

SOURCES = Path(__file__).with_name("hip_runtime")
HIPRTC_FRONT = Path(__file__).with_name("hiprtc_front.c")

# What hipRuntimeGetVersion answers for each ROCm version.
_HIP_VERSIONS = {"7.0": 70051831, "7.14": 71460850}


@dataclass(frozen=True)
class _Library:
    """A ROCm library that CuPy links.

    Attributes
    ----------
    stem : str
        Its name without ``.so``.
    symbols : str
        A regular expression: which of the imported symbols are its functions.
    not_supported : int
        What a function returns that the virtual device does not have: the library's code for that.
    """

    stem: str
    symbols: str
    not_supported: int


_RUNTIME = "libamdhip64"
_LIBRARIES = (
    _Library(_RUNTIME, r"_*hip(?!blas|sparse|rand|fft|rtc)", 801),
    _Library("libhipblas", "hipblas", 7),
    _Library("librocblas", "rocblas_", 2),
    _Library("librocsolver", "rocsolver_", 2),
    _Library("libhipsparse", "hipsparse", 10),
    _Library("libhiprand", "hiprand", 1000),
    _Library("libhipfft", "hipfft", 16),
    _Library("librocfft", "rocfft_", 1),
    _Library("librccl", "nccl", 5),
    _Library("libroctx64", "roctx", 1),
    _Library("libroctracer64", "roctracer", 1),
)


def build(imports: Imports, folder: Path, version: str) -> None:
    """Compile all stand-ins as one library, under the name of each that CuPy links.

    Parameters
    ----------
    imports : Imports
        What CuPy links.
    folder : pathlib.Path
        Where the library and its other names are put.
    version : str
        The ROCm version that it says it is of.
    """
    soname = _soname(_RUNTIME, imports)
    stubs, exports = _generate(imports)
    digest = hashlib.sha256((stubs + exports).encode()).hexdigest()[:16]
    generated = cache.cache_dir() / "generated" / digest
    if not generated.is_dir():
        cache.publish(generated, lambda path: _write(path, stubs, exports))
    include, hip_version = f"-I{SOURCES}", f"-DROCKE_HIP_VERSION={_HIP_VERSIONS[version]}"
    try:
        built = compiler.build_library(
            _RUNTIME,
            [*sorted(SOURCES.glob("*.c")), generated / "stubs.c"],
            depends=[*sorted(SOURCES.glob("*.h")), generated / "exports.map"],
            flags=["-O2", include, hip_version, "-fvisibility=hidden"],
            link=[f"-Wl,-soname,{soname}", f"-Wl,--version-script={generated / 'exports.map'}"],
        )
    except compiler.CompilerError as error:
        if "No space left on device" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
        raise
    shutil.copyfile(built, folder / soname)
    for library in _LIBRARIES:
        for name in {f"{library.stem}.so", _soname(library.stem, imports)} - {soname, ""}:
            (folder / name).symlink_to(soname)


def build_hiprtc_front(real: Path, folder: Path, first_line: str) -> None:
    """Compile what stands in front of hipRTC where another clang compiles some programs.

    Parameters
    ----------
    real : pathlib.Path
        The hipRTC that all other programs go to; the folder has it under its own name as well.
    folder : pathlib.Path
        Where the library is put, under the name by which CuPy opens hipRTC.
    first_line : str
        What those programs begin with.
    """
    built = compiler.build_library(
        "libhiprtc-front",
        [HIPRTC_FRONT],
        flags=["-O2", f"-DROCKE_FIRST_LINE={json.dumps(first_line)}", "-fvisibility=hidden"],
        link=["-Wl,--no-as-needed", str(real.resolve()), f"-Wl,-rpath,{real.parent}"],
    )
    shutil.copyfile(built, folder / real.name)


def _write(folder: Path, stubs: str, exports: str) -> None:
    folder.mkdir()
    (folder / "stubs.c").write_text(stubs)
    (folder / "exports.map").write_text(exports)


def _soname(stem: str, imports: Imports) -> str:
    """Return the name by which CuPy links a library, or an empty string."""
    return next((name for name in imports.libraries if name.startswith(f"{stem}.so")), "")


def _generate(imports: Imports) -> tuple[str, str]:
    """Return C source with a stub of every imported function, and the linker's list of exports.

    In the list each has the version that CuPy asks for.
    """
    stubs = ['#include "stub.h"']
    versions: dict[str, list[str]] = {}
    for library in _LIBRARIES:
        macro = "HIP_STUB" if library.stem == _RUNTIME else "STUB"
        for version, names in imports.by_version(library.symbols).items():
            stubs += [f"{macro}({name}, {library.not_supported})" for name in names]
            versions.setdefault(version, []).extend(names)
    rest = "".join(f"{name}; " for name in versions.pop("", ()))
    nodes = [f"{name} {{ global: {'; '.join(group)}; }};" for name, group in versions.items()]
    # What CuPy does not import: functions for other callers, and those for Python.
    nodes.append(f"ROCKE {{ global: {rest}hip*; rocke_*; __hip*; local: *; }};")
    return "\n".join(stubs) + "\n", "\n".join(nodes) + "\n"

"""A folder laid out as a ROCm installation: libraries that are stand-ins, and the real hipRTC."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rocke_cupy import cache
from rocke_cupy.emulator import _core, native
from rocke_cupy.emulator.cupy_imports import Imports, cupy_folder, read_imports
from rocke_cupy.emulator.rocm_tools import VERSION_VARIABLE, RocmTools, rocm_tools

ROOT_VARIABLE = "ROCKE_EMULATOR_ROOT"
PACKAGE_VARIABLE = "ROCKE_EMULATOR_PACKAGE"
MEMORY_VARIABLE = "ROCKE_EMULATOR_MEMORY"
SCHEDULE_VARIABLE = "ROCKE_EMULATOR_SCHEDULE"

_SOURCES = Path(__file__).with_name("hip_runtime")
_SITE = Path(__file__).with_name("_sitecustomize.py")
_CORE = Path(__file__).with_name("core")
# What hipRuntimeGetVersion answers for each ROCm version.
_HIP_VERSIONS = {"7.0": 70051831, "7.14": 71460850}


@dataclass(frozen=True)
class _Library:
    """A ROCm library that CuPy links: which of the imported symbols are its functions, and what a
    function that the virtual device does not have returns (the library's code for that)."""

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


def prepare(version: str | None = None) -> Path:
    """Return the virtual ROCm root for a ROCm version, made at first use.

    Parameters
    ----------
    version : str, optional
        ROCm version, as for `rocke_cupy.emulator.rocm_tools.rocm_tools`.

    Returns
    -------
    pathlib.Path
        A folder with ``lib``, ``bin``, ``include`` and ``python``.
    """
    cupy = cupy_folder()
    tools = rocm_tools(version)
    root = cache.cache_dir() / "roots" / f"rocm-{tools.version}-{_digest(cupy, tools)}"
    if not root.is_dir():
        with cache.lock(root, lambda: _say("waiting for another process that prepares this")):
            if not root.is_dir():
                _say(f"preparing the virtual MI355X (ROCm {tools.version}, once)")
                cache.publish(root, lambda unfinished: _build(unfinished, root, cupy, tools))
    return root


def environment(
    root: Path,
    version: str,
    *,
    memory: str | None = None,
    schedule: str | None = None,
    base: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment in which a Python process finds the virtual device.

    Parameters
    ----------
    root : pathlib.Path
        What `prepare` returned.
    version : str
        ROCm version of the root.
    memory, schedule : str, optional
        How kernels are executed, as for `rocke_cupy.emulator.run`.
    base : mapping, optional
        The environment to start from, by default this process's.
    """
    variables = dict(os.environ if base is None else base)
    ours = cache.cache_dir()
    # CuPy has neither the ROCm version nor the headers in the key of its cache.
    compiled = f"rocm-{version}-{_digest_of_files(_SOURCES / 'include')}"
    for name, folder in (("LD_LIBRARY_PATH", "lib"), ("PATH", "bin"), ("PYTHONPATH", "python")):
        variables[name] = _in_front(str(root / folder), variables.get(name, ""))
    variables |= {
        ROOT_VARIABLE: str(root),
        VERSION_VARIABLE: version,
        PACKAGE_VARIABLE: str(Path(__file__).parents[2]),
        "ROCM_HOME": str(root),
        "CUPY_CACHE_DIR": str(ours / "cupy" / compiled),
        "AMD_COMGR_CACHE_DIR": str(ours / "comgr" / compiled),
        cache.VARIABLE: str(ours),
    }
    if memory is not None:
        variables[MEMORY_VARIABLE] = memory
    if schedule is not None:
        variables[SCHEDULE_VARIABLE] = schedule
    return variables


def _in_front(folder: str, path: str) -> str:
    return os.pathsep.join([folder, *(p for p in path.split(os.pathsep) if p and p != folder)])


def _digest(cupy: Path, tools: RocmTools) -> str:
    """Digest of all that a root is made from, quick enough for every start."""
    # Another CuPy in the same place has other libraries, of another size or time.
    runtime = next((cupy / "cupy_backends/cuda/api").glob("runtime.*.so"), None)
    stamp = (runtime.stat().st_size, runtime.stat().st_mtime_ns) if runtime else None
    sources = _digest_of_files(_SOURCES, _CORE, _SITE, Path(__file__))
    parts = (sources, str(cupy), stamp, tools.folder.name)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _digest_of_files(*places: Path) -> str:
    """Digest of files and of all files in folders."""
    digest = hashlib.sha256()
    for place in places:
        files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        for path in files:
            digest.update(f"{path.relative_to(place.parent)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(folder: Path, final: Path, cupy: Path, tools: RocmTools) -> None:
    imports = read_imports(cupy)
    for name in ("lib", "bin", "python"):
        (folder / name).mkdir(parents=True)
    _copy_headers(_SOURCES / "include", folder / "include")
    shutil.copy(_SITE, folder / "python" / "sitecustomize.py")
    for path in tools.folder.iterdir():
        if path.name.startswith(("libamdhip64", "libhiprtc.so", "libamd_comgr.so")):
            continue  # ours takes the place of the first; the others get links to their targets
        (folder / "lib" / path.name).symlink_to(path)
    for path in (tools.hiprtc, tools.comgr):
        (folder / "lib" / path.name).symlink_to(path.resolve())
    _build_libraries(imports, folder / "lib", _HIP_VERSIONS[tools.version])
    _write_hipcc(folder / "bin" / "hipcc", final, tools.version)
    # The emulator's core is compiled now, so that the first launch does not take unannounced long.
    _core.library()


def _copy_headers(source: Path, target: Path) -> None:
    """Copy the stand-in headers; those of the C++ library have names without a suffix there."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("std"))
    for path in (source / "std").iterdir():
        shutil.copyfile(path, target / path.stem)


def _build_libraries(imports: Imports, folder: Path, hip_version: int) -> None:
    """Compile all stand-ins as one library, under the name of each that CuPy links."""
    soname = _soname(_RUNTIME, imports)
    stubs, exports = _generate(imports)
    digest = hashlib.sha256((stubs + exports).encode()).hexdigest()[:16]
    generated = cache.cache_dir() / "generated" / digest
    if not generated.is_dir():
        cache.publish(generated, lambda path: _write(path, stubs, exports))
    include, version = f"-I{_SOURCES}", f"-DROCKE_HIP_VERSION={hip_version}"
    try:
        built = native.build_library(
            _RUNTIME,
            [*sorted(_SOURCES.glob("*.c")), generated / "stubs.c"],
            depends=[*sorted(_SOURCES.glob("*.h")), generated / "exports.map"],
            flags=["-O2", include, version, "-fvisibility=hidden"],
            link=[f"-Wl,-soname,{soname}", f"-Wl,--version-script={generated / 'exports.map'}"],
        )
    except native.CompilerError as error:
        if "No space left on device" in str(error):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder)) from error
        raise
    shutil.copyfile(built, folder / soname)
    for library in _LIBRARIES:
        for name in {f"{library.stem}.so", _soname(library.stem, imports)} - {soname, ""}:
            (folder / name).symlink_to(soname)


def _write(folder: Path, stubs: str, exports: str) -> None:
    folder.mkdir()
    (folder / "stubs.c").write_text(stubs)
    (folder / "exports.map").write_text(exports)


def _soname(stem: str, imports: Imports) -> str:
    """Return the name by which CuPy links a library, or an empty string."""
    return next((name for name in imports.libraries if name.startswith(f"{stem}.so")), "")


def _generate(imports: Imports) -> tuple[str, str]:
    """Return C source with a stub of every imported function, and the linker's export list, in
    which each has the version that CuPy asks for."""
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


def _write_hipcc(path: Path, root: Path, version: str) -> None:
    """Write the hipcc stand-in: CuPy runs it once a process, to learn its include folders."""
    path.write_text(f"""#!/bin/sh
case " $* " in
*" --version "*)
    echo "HIP version: {version} (stand-in of the virtual MI355X)" ;;
*" -E "*)
    printf '%s\\n' '#include "..." search starts here:' '#include <...> search starts here:' \\
        ' {root}/include' 'End of search list.' >&2 ;;
*)
    echo "hipcc of the virtual MI355X compiles nothing: use hipRTC (cupy.RawModule, RawKernel)" >&2
    exit 1 ;;
esac
""")
    path.chmod(0o755)


def _say(text: str) -> None:
    print(f"rocke_cupy: {text}", file=sys.stderr, flush=True)

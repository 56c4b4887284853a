"""A folder laid out as a ROCm installation: libraries that are stand-ins, and the real hipRTC."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from rocke_cupy import _cache
from rocke_cupy.emulator.cupy_imports import Imports, cupy_folder, read_imports
from rocke_cupy.emulator.rocm_tools import VERSION_VARIABLE, RocmTools, rocm_tools

ROOT_VARIABLE = "ROCKE_EMULATOR_ROOT"
PACKAGE_VARIABLE = "ROCKE_EMULATOR_PACKAGE"
MEMORY_VARIABLE = "ROCKE_EMULATOR_MEMORY"
SCHEDULE_VARIABLE = "ROCKE_EMULATOR_SCHEDULE"

_SOURCES = Path(__file__).with_name("hip_runtime")
_SITE = Path(__file__).with_name("_sitecustomize.py")
_FORMAT = "1"
# What hipRuntimeGetVersion answers for each ROCm version.
_HIP_VERSIONS = {"7.0": 70051831, "7.14": 71460850}


@dataclass(frozen=True)
class _Library:
    """One ROCm library: which imported symbols are its, what it answers to the others."""

    stem: str
    symbols: str
    not_supported: int
    sources: tuple[str, ...] = ("stub.c",)


_RUNTIME_SOURCES = ("error.c", "device.c", "memory.c", "copy.c", "stream.c", "module.c",
                    "fat_binary.c", "callbacks.c", "stub_hip.c")  # fmt: skip
# The codes are each library's own for "not supported".
_LIBRARIES = (
    _Library("libamdhip64", r"_*hip(?!blas|sparse|rand|fft|rtc)", 801, _RUNTIME_SOURCES),
    _Library("libhipblas", "hipblas", 7, ("stub.c", "blas.c")),
    _Library("librocblas", "rocblas_", 2),
    _Library("librocsolver", "rocsolver_", 2),
    _Library("libhipsparse", "hipsparse", 10),
    _Library("libhiprand", "hiprand", 1000, ("stub.c", "rand.c")),
    _Library("libhipfft", "hipfft", 16),
    _Library("librocfft", "rocfft_", 1),
    _Library("librccl", "nccl", 5, ("stub.c", "collectives.c")),
    _Library("libroctx64", "roctx", 1, ("stub.c", "profiler.c")),
    _Library("libroctracer64", "roctracer", 1, ("stub.c", "profiler.c")),
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
    root = _cache.cache_dir() / "roots" / f"rocm-{tools.version}-{_digest(cupy, tools)}"
    if not root.is_dir():
        with _cache.lock(root, lambda: _say("waiting for another process that prepares this")):
            if not root.is_dir():
                _say(f"preparing the virtual MI355X (ROCm {tools.version}, once)")
                _cache.publish(root, lambda unfinished: _build(unfinished, root, cupy, tools))
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
    cache = _cache.cache_dir()
    for name, folder in (("LD_LIBRARY_PATH", "lib"), ("PATH", "bin"), ("PYTHONPATH", "python")):
        variables[name] = _in_front(str(root / folder), variables.get(name, ""))
    variables |= {
        ROOT_VARIABLE: str(root),
        VERSION_VARIABLE: version,
        PACKAGE_VARIABLE: str(Path(__file__).parents[2]),
        "ROCM_HOME": str(root),
        # CuPy's cache has no ROCm version in its key; a folder each keeps them apart.
        "CUPY_CACHE_DIR": str(cache / "cupy" / root.name),
        "AMD_COMGR_CACHE_DIR": str(cache / "comgr" / root.name),
        _cache.VARIABLE: str(cache),
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
    digest = hashlib.sha256()
    sources = sorted(path for path in _SOURCES.rglob("*") if path.is_file())
    for path in (*sources, _SITE, Path(__file__)):
        digest.update(f"{path.name}\0".encode() + path.read_bytes())
    # Another CuPy in the same place has other libraries, of another size or time.
    runtime = next((cupy / "cupy_backends/cuda/api").glob("runtime.*.so"), None)
    stamp = (runtime.stat().st_size, runtime.stat().st_mtime_ns) if runtime else None
    digest.update(repr((_FORMAT, str(cupy), stamp, tools.folder.name)).encode())
    return digest.hexdigest()[:16]


def _build(folder: Path, final: Path, cupy: Path, tools: RocmTools) -> None:
    imports = read_imports(cupy)
    for name in ("lib", "bin", "python"):
        (folder / name).mkdir(parents=True)
    shutil.copytree(_SOURCES / "include", folder / "include")
    shutil.copy(_SITE, folder / "python" / "sitecustomize.py")
    for path in tools.folder.iterdir():
        if path.name.startswith(("libamdhip64", "libhiprtc.so", "libamd_comgr.so")):
            continue  # ours takes the place of the first; the others get links to their targets
        (folder / "lib" / path.name).symlink_to(path)
    for path in (tools.hiprtc, tools.comgr):
        (folder / "lib" / path.name).symlink_to(path.resolve())
    for library in _LIBRARIES:
        _build_library(library, imports, folder, _HIP_VERSIONS[tools.version])
    _write_hipcc(folder / "bin" / "hipcc", final, tools.version)


def _build_library(library: _Library, imports: Imports, folder: Path, hip_version: int) -> None:
    """Compile the stand-in for one library, if this CuPy links it."""
    soname = next((n for n in imports.libraries if n.startswith(f"{library.stem}.so")), None)
    if soname is None:
        return
    groups = imports.by_version(library.symbols)
    link = [f"-Wl,-soname,{soname}"]
    generated = _cache.cache_dir() / "generated" / hashlib.sha256(repr(groups).encode()).hexdigest()
    if not generated.is_dir():
        _cache.publish(generated, lambda path: _generate(path, library, groups))
    if any(groups):
        link.append(f"-Wl,--version-script={generated / 'exports.map'}")
    from rocke_cupy.emulator import native  # the compiler is needed only when a root is made

    built = native.build_library(
        library.stem,
        [*(_SOURCES / name for name in library.sources), generated / "stubs.c"],
        depends=[*sorted(_SOURCES.glob("*.h")), generated / "exports.map"],
        flags=["-O2", f"-I{_SOURCES}", f"-DROCKE_HIP_VERSION={hip_version}", "-fvisibility=hidden"],
        link=link,
    )
    shutil.copyfile(built, folder / "lib" / soname)
    plain = folder / "lib" / f"{library.stem}.so"
    if not plain.exists():
        plain.symlink_to(soname)


def _generate(folder: Path, library: _Library, groups: Mapping[str, Iterable[str]]) -> None:
    """Write a stub of every imported symbol, and the version that each has to have."""
    folder.mkdir()
    names = sorted(name for group in groups.values() for name in group)
    lines = ['#include "stub.h"', *(f"STUB({name}, {library.not_supported})" for name in names)]
    (folder / "stubs.c").write_text("\n".join(lines) + "\n")
    nodes = [
        f"{version} {{ global: {'; '.join(group)}; }};"
        for version, group in sorted(groups.items())
        if version
    ]
    rest = "".join(f"{name}; " for name in groups.get("", ()))
    nodes.append(f"ROCKE {{ global: {rest}hip*; rocke_*; __hip*; local: *; }};")
    (folder / "exports.map").write_text("\n".join(nodes) + "\n")


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

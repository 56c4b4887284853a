"""A folder laid out as a ROCm installation: libraries that are stand-ins, and the real hipRTC."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from rocke_cupy import cache
from rocke_cupy.emulator.core import library as core
from rocke_cupy.emulator.device import stand_ins, variables
from rocke_cupy.emulator.device.cupy_imports import cupy_folder, read_imports
from rocke_cupy.emulator.rocm import clang
from rocke_cupy.emulator.rocm.clang import Clang
from rocke_cupy.emulator.rocm.say import say
from rocke_cupy.emulator.rocm.tools import VERSION_VARIABLE, RocmTools, rocm_tools

_SITE = Path(__file__).with_name("sitecustomize.py")
_HEADERS = stand_ins.SOURCES / "include"


def prepare(version: str | None = None, other: Clang | None = None) -> Path:
    """Return the virtual ROCm root for a ROCm version, made at first use.

    Parameters
    ----------
    version : str, optional
        ROCm version, as for `rocke_cupy.emulator.rocm.tools.rocm_tools`.
    other : Clang, optional
        What compiles the package's kernels in hipRTC's place.

    Returns
    -------
    pathlib.Path
        A folder with ``lib``, ``bin``, ``include`` and ``python``.
    """
    cupy = cupy_folder()
    tools = rocm_tools(version)
    root = (
        cache.cache_dir() / "roots" / f"rocm-{tools.version}-{_digest_of_root(cupy, tools, other)}"
    )
    if not root.is_dir():
        with cache.lock(root, lambda: say("waiting for another process that prepares this")):
            if not root.is_dir():
                say(f"preparing the virtual MI355X (ROCm {tools.version}, once)")
                cache.publish(root, lambda unfinished: _build(unfinished, root, cupy, tools, other))
    return root


def environment(
    root: Path,
    version: str,
    other: Clang | None = None,
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
    other : Clang, optional
        The clang of the root.
    memory, schedule : str, optional
        How kernels are executed, as for `rocke_cupy.emulator.run`.
    base : mapping, optional
        The environment to start from, by default this process's.
    """
    result = dict(os.environ if base is None else base)
    ours = cache.cache_dir()
    # CuPy has neither the ROCm version nor the headers in the key of its cache.
    compiled = f"rocm-{version}-{_digest(_HEADERS)}" + (f"-{other.digest}" if other else "")
    for name, folder in (("LD_LIBRARY_PATH", "lib"), ("PATH", "bin"), ("PYTHONPATH", "python")):
        result[name] = _in_front(str(root / folder), result.get(name, ""))
    result |= {
        variables.ROOT: str(root),
        VERSION_VARIABLE: version,
        variables.PACKAGE: str(Path(__file__).parents[3]),
        "ROCM_HOME": str(root),
        "CUPY_CACHE_DIR": str(ours / "cupy" / compiled),
        "AMD_COMGR_CACHE_DIR": str(ours / "comgr" / compiled),
        cache.VARIABLE: str(ours),
    }
    if other is not None:
        result[clang.VARIABLE] = other.name
    if memory is not None:
        result[variables.MEMORY] = memory
    if schedule is not None:
        result[variables.SCHEDULE] = schedule
    return result


def _in_front(folder: str, path: str) -> str:
    return os.pathsep.join([folder, *(p for p in path.split(os.pathsep) if p and p != folder)])


def _digest_of_root(cupy: Path, tools: RocmTools, other: Clang | None = None) -> str:
    """Return a digest of all that a root is made from, quick enough for every start."""
    # Another CuPy in the same place has other libraries, of another size or time.
    runtime = next((cupy / "cupy_backends/cuda/api").glob("runtime.*.so"), None)
    stamp = (runtime.stat().st_size, runtime.stat().st_mtime_ns) if runtime else None
    own = (_SITE, Path(__file__), Path(stand_ins.__file__), stand_ins.HIPRTC_FRONT)
    sources = _digest(stand_ins.SOURCES, *core.source_files(), *own)
    parts = (sources, str(cupy), stamp, tools.folder.name, other and other.digest)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _digest(*places: Path) -> str:
    """Return a digest of files and of all files in folders."""
    digest = hashlib.sha256()
    for place in places:
        files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
        for path in files:
            digest.update(f"{path.relative_to(place.parent)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _build(
    folder: Path, final: Path, cupy: Path, tools: RocmTools, other: Clang | None = None
) -> None:
    imports = read_imports(cupy)
    for name in ("lib", "bin", "python"):
        (folder / name).mkdir(parents=True)
    _copy_headers(folder / "include")
    shutil.copy(_SITE, folder / "python" / "sitecustomize.py")
    for path in tools.folder.iterdir():
        if path.name.startswith(("libamdhip64", "libhiprtc.so", "libamd_comgr.so")):
            continue  # ours takes the place of the first; the others get links to their targets
        (folder / "lib" / path.name).symlink_to(path)
    (folder / "lib" / tools.comgr.name).symlink_to(tools.comgr.resolve())
    if other is None:
        (folder / "lib" / tools.hiprtc.name).symlink_to(tools.hiprtc.resolve())
    else:
        stand_ins.build_hiprtc_front(tools.hiprtc, folder / "lib", clang.FIRST_LINE)
        _write_script(folder / "bin" / "device-clang", other.script)
    stand_ins.build(imports, folder / "lib", tools.version)
    _write_hipcc(folder / "bin" / "hipcc", final, tools.version)
    # The emulator's core is compiled now, so that the first launch does not take unannounced long.
    core.library()


def _copy_headers(target: Path) -> None:
    """Copy the stand-in headers; those of the C++ library have names without a suffix there."""
    shutil.copytree(_HEADERS, target, ignore=shutil.ignore_patterns("std"))
    for path in (_HEADERS / "std").iterdir():
        shutil.copyfile(path, target / path.stem)


def _write_hipcc(path: Path, root: Path, version: str) -> None:
    """Write the hipcc stand-in: CuPy runs it once a process, to learn its include folders."""
    _write_script(
        path,
        f"""#!/bin/sh
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
""",
    )


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)

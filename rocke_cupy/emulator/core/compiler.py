"""Build the C parts of the emulator on first use, into the cache folder."""

from __future__ import annotations

import concurrent.futures
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path

from rocke_cupy.cache import cache_dir, publish


class CompilerError(RuntimeError):
    """There is no C compiler, or it refused a source; the message says which and why."""


def compiler() -> tuple[str, ...]:
    """Return the command of the C compiler.

    Returns
    -------
    tuple of str
        ``$CC``, else ``cc``, ``gcc`` or ``clang`` from the path, else Zig's, which pip installs.

    Raises
    ------
    CompilerError
        If there is none.
    """
    if chosen := os.environ.get("CC"):
        return tuple(chosen.split())
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return (found,)
    if util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc")
    raise CompilerError(
        "the emulator needs a C compiler and found none: `pip install ziglang`, or install gcc "
        "(Debian, Ubuntu: `apt install gcc`), or set CC"
    )


def build_library(
    name: str,
    sources: Sequence[Path],
    *,
    depends: Sequence[Path] = (),
    flags: Sequence[str] = (),
    link: Sequence[str] = (),
) -> Path:
    """Compile C11 sources to a shared library, once for each state of the sources and compiler.

    Parameters
    ----------
    name : str
        File name of the library without its suffix.
    sources, depends : sequence of pathlib.Path
        What is compiled, and what the sources include.
    flags, link : sequence of str
        Further options for each source, and for the link.

    Returns
    -------
    pathlib.Path
        The library, in the cache folder.

    Raises
    ------
    CompilerError
        If there is no compiler or it fails; the message has its output.
    """
    command = compiler()
    options = ("-std=gnu11", "-fPIC", *flags)
    digest = _digest(command, options, link, [*sources, *depends])
    folder = cache_dir() / "native" / f"{name}-{digest[:16]}"
    library = folder / f"{name}.so"
    if not library.exists():

        def build(target: Path) -> None:
            target.mkdir()
            _compile(command, options, link, sources, target / library.name)

        publish(folder, build)
    return library


def _digest(
    command: Sequence[str], options: Sequence[str], link: Sequence[str], files: Sequence[Path]
) -> str:
    digest = hashlib.sha256()
    parts = [*command, _version(tuple(command)), *options, "--", *link, platform.machine()]
    if any(option.startswith(("-march=native", "-mcpu=native")) for option in options):
        parts.append(_processor())
    digest.update("\0".join(parts).encode())
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, check=False, timeout=60
        )
    except OSError as error:
        raise CompilerError(f"cannot run the C compiler {' '.join(command)}: {error}") from error
    return done.stdout


def _processor() -> str:
    """Return text that changes when -march=native would mean something else."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    kept = ("vendor_id", "cpu family", "model\t", "flags", "Features")
    first = lines[: lines.index("")] if "" in lines else lines
    return "\n".join(line for line in first if line.startswith(kept))


def _compile(
    command: Sequence[str],
    options: Sequence[str],
    link: Sequence[str],
    sources: Sequence[Path],
    library: Path,
) -> None:
    objects = [library.with_name(f"{number}.o") for number in range(len(sources))]

    def one(source: Path, target: Path) -> None:
        _run([*command, *options, "-c", str(source), "-o", str(target)])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, sources, objects))
    _run([*command, "-shared", *map(str, objects), *link, "-o", str(library)])
    for path in objects:
        path.unlink()


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CompilerError(f"cannot run the C compiler {command[0]}: {error}") from error
    if done.returncode:
        raise CompilerError(
            f"the C compiler failed with status {done.returncode}\n"
            f"{' '.join(command)}\n{done.stderr.strip() or done.stdout.strip()}"
        )

"""Another clang in hipRTC's place: for compiler generations that no wheel carries.

It compiles the package's own kernels, which need no headers and no device libraries. All other
programs stay with hipRTC.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "ROCKE_EMULATOR_CLANG"
ZIGLANG = "ziglang"
"""The name of the clang in the package that is the emulator's C compiler of last resort."""

FIRST_LINE = "// rocke_cupy "
"""What every program of the package begins with."""

_WORDS = Path(__file__).with_name("clang_words.h")
_PROBE = "__global__ void probe(float* x) { x[blockIdx.x] = gridDim.x; }"


class ClangError(RuntimeError):
    """A clang cannot take hipRTC's place; the message says why and what to do."""


@dataclass(frozen=True)
class Clang:
    """A clang that compiles for gfx950, and its linker.

    Attributes
    ----------
    name : str
        The name by which it was chosen.
    driver, linker : tuple of str
        The commands.
    version : str
        What it says of itself, such as "Debian clang version 22.1.8".
    """

    name: str
    driver: tuple[str, ...]
    linker: tuple[str, ...]
    version: str

    def _steps(
        self, source: str, assembly: str, binary: str, code: str
    ) -> tuple[tuple[str, ...], ...]:
        """Return the commands from a source to a code object; the first takes hipRTC's options.

        By way of assembly, since the driver of Zig's clang knows no linker for this target.
        """
        hip = ("-x", "hip", "--cuda-device-only", "-S", "-O3")
        without_rocm = ("-nogpuinc", "-nogpulib", "-include", str(_WORDS))
        target = ("--target=amdgcn-amd-amdhsa", "-mcpu=gfx950")
        return (
            (*self.driver, *hip, *without_rocm, source, "-o", assembly),
            (*self.driver, *target, "-c", assembly, "-o", binary),
            (*self.linker, "-shared", "--no-undefined", binary, "-o", code),
        )

    @property
    def script(self) -> str:
        """A shell script that compiles ``source.hip`` of a folder to ``code`` there.

        Its arguments are the folder and hipRTC's options.
        """
        compile_, *others = (
            shlex.join(step) for step in self._steps("source.hip", "assembly.s", "binary.o", "code")
        )
        clean = "rm assembly.s binary.o"
        return "\n".join(
            ["#!/bin/sh -e", 'cd "$1"', "shift", f'{compile_} "$@"', *others, clean, ""]
        )

    @property
    def digest(self) -> str:
        """A digest of all that its code objects depend on, sources and options apart."""
        parts = repr((self.script, self.version, _WORDS.read_text()))
        return hashlib.sha256(parts.encode()).hexdigest()[:16]

    def compile(self, folder: Path, options: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Compile ``source.hip`` of a folder to ``code`` there."""
        return subprocess.run(
            ["/bin/sh", "-ec", self.script, "sh", str(folder), *options],
            capture_output=True,
            text=True,
            errors="replace",
        )


def compiles(source: str) -> bool:
    """Say whether a program is one that a clang in hipRTC's place takes over."""
    return source.startswith(FIRST_LINE)


def chosen_clang(name: str | None = None) -> Clang | None:
    """Return the clang that takes hipRTC's place: `name`, else ``$ROCKE_EMULATOR_CLANG``, or none.

    Raises
    ------
    ClangError
        If there is no such program, or it does not compile for gfx950.
    """
    name = name or os.environ.get(VARIABLE)
    return _checked(name) if name else None


@functools.cache
def _checked(name: str) -> Clang:
    driver = _driver(name)
    said = _output([*driver, "--version"]).partition("\n")[0].strip()
    if "clang version" not in said:
        raise ClangError(f"clang={name!r} does not say that it is a clang, but {said!r}")
    if name == ZIGLANG:
        linker: tuple[str, ...] = (sys.executable, "-m", ZIGLANG, "ld.lld")
    else:
        linker = (_output([*driver, "-print-prog-name=ld.lld"]).strip(),)
    clang = Clang(name, driver, linker, said)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "source.hip").write_text(_PROBE)
        probe = clang.compile(Path(folder), ["--offload-arch=gfx950"])
    if probe.returncode:
        raise ClangError(
            f"clang={name!r} ({said}) does not compile for gfx950, which needs LLVM 20 or later "
            f"with lld: {probe.stderr.strip()[:600]}"
        )
    return clang


def _driver(name: str) -> tuple[str, ...]:
    if name == ZIGLANG:
        if importlib.util.find_spec(ZIGLANG) is None:
            raise ClangError("clang='ziglang' is not installed here: pip install ziglang")
        return (sys.executable, "-m", ZIGLANG, "clang")
    if path := shutil.which(name):
        return (os.path.abspath(path),)
    raise ClangError(
        f"clang={name!r} is no program on PATH. 'ziglang' is the clang that `pip install ziglang` "
        "brings; Debian has others (apt install clang-22 lld-22)"
    )


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, errors="replace").stdout

"""Run a Python program with the virtual MI355X: ``python -m rocke_cupy.emulator SCRIPT [ARGS]``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from rocke_cupy import cache
from rocke_cupy.emulator.core.compiler import CompilerError
from rocke_cupy.emulator.core.numbers import SCHEDULES
from rocke_cupy.emulator.device import virtual_root
from rocke_cupy.emulator.device.cupy_imports import CupyMissing
from rocke_cupy.emulator.options import MEMORIES
from rocke_cupy.emulator.rocm import clang, tools
from rocke_cupy.emulator.rocm.wheel import ToolsError

_PROGRAM = "python -m rocke_cupy.emulator"


# What may be wrong with the machine, with a sentence each; anything else is our bug.
_EXPECTED = (cache.CacheError, clang.ClangError, CompilerError, CupyMissing, ToolsError, ValueError)


def main(arguments: list[str] | None = None) -> int:
    """Prepare the virtual device and become the Python process that has it."""
    options, program = _parse(sys.argv[1:] if arguments is None else arguments)
    try:
        version = tools.chosen_version(options.rocm)
        other = clang.chosen_clang(options.clang)
        root = virtual_root.prepare(version, other)
        environment = virtual_root.environment(
            root, version, other, memory=options.memory, schedule=options.schedule
        )
    except KeyboardInterrupt:
        print("rocke_cupy: interrupted; the next run goes on from there", file=sys.stderr)
        return 130
    except _EXPECTED as error:
        print(f"rocke_cupy: {error}", file=sys.stderr)
        return 1
    sys.stdout.flush()
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    os.execve(sys.executable, [sys.executable, *flags, *program], environment)


def _parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        usage=f"{_PROGRAM} [--rocm VERSION] [--clang NAME] [--memory MODE] [--schedule ORDER] "
        "(SCRIPT | -m MODULE | -c CODE) [ARGS ...]",
        description="Run a Python program with a virtual MI355X: CuPy finds the device, hipRTC "
        "compiles for it, and kernels are executed by an emulator.",
    )
    parser.add_argument(
        "--rocm",
        choices=tools.VERSIONS,
        help=f"ROCm version of the compiler (default: ${tools.VERSION_VARIABLE}, else 7.0)",
    )
    parser.add_argument(
        "--clang",
        metavar="NAME",
        help="a clang that compiles rocke_cupy's kernels in hipRTC's place: ziglang for that of "
        "the Python package, or a program such as clang-22 "
        f"(default: ${clang.VARIABLE}, else none)",
    )
    parser.add_argument(
        "--memory",
        choices=MEMORIES,
        help="whether loads arrive as late as the wait counters allow (default) or at once",
    )
    parser.add_argument(
        "--schedule",
        choices=SCHEDULES,
        help="the order in which the waves of a workgroup run (default: lockstep)",
    )
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="SCRIPT | -m MODULE | -c CODE",
        help="what Python runs, with its arguments",
    )
    own, program = _split(arguments)
    options = parser.parse_args(own)
    if not program:
        parser.error("a SCRIPT, -m MODULE or -c CODE is missing")
    if program[0] in ("-m", "-c") and len(program) == 1:
        parser.error(f"{program[0]} needs an argument")
    return options, program


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split our options from the program: at the first -m, -c or word that is no option's value."""
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word in ("-m", "-c", "-") or not word.startswith("-"):
            break
        index += 2 if word in ("--rocm", "--clang", "--memory", "--schedule") else 1
    return arguments[:index], arguments[index:]


if __name__ == "__main__":
    sys.exit(main())

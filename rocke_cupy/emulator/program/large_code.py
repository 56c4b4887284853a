"""Kernels of large code objects, made ready one at a time.

CuPy's own libraries (sort, random generators) carry hundreds of kernels in one code object; to
disassemble all of them for one launch would take minutes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np

from rocke_cupy.emulator.program.code_object import CodeObject, Kernel
from rocke_cupy.emulator.program.disassemble import disassemble
from rocke_cupy.emulator.program.program import Program, load

_LARGE = 1 << 19  # bytes


class Loaded(Protocol):
    """What a module load gives."""

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels by name."""

    def symbol_address(self, name: str) -> tuple[int, int]:
        """Return the host address and the size of a device variable."""

    def program_of(self, kernel: str) -> Program:
        """Return the program to launch for a kernel."""


class _Whole:
    """A code object of ordinary size."""

    def __init__(self, code: bytes) -> None:
        self._program = load(code)
        self.kernels = self._program.kernels
        self.symbol_address = self._program.symbol_address

    def program_of(self, kernel: str) -> Program:
        return self._program


def _part(code_object: CodeObject, image: np.ndarray, name: str) -> Program:
    """Return the program that one kernel of a large code object is."""
    start = code_object.kernels[name].entry
    text = code_object.text[start : start + code_object.symbols[name].size]
    lines = [replace(line, offset=line.offset + start) for line in disassemble(text)]
    return Program(code_object, lines, image)


def _calls(program: Program) -> bool:
    return any(i.mnemonic.startswith(("s_swappc", "s_setpc")) for i in program.instructions)


class _Large:
    """A code object whose kernels are made ready at their first launch."""

    def __init__(self, code: bytes) -> None:
        self._code_object = CodeObject(code)
        self._image = self._code_object.load_image()
        self._programs: dict[str, Program] = {}
        self.kernels = self._code_object.kernels

    def symbol_address(self, name: str) -> tuple[int, int]:
        symbol = self._code_object.symbols[name]
        return self._image.ctypes.data + symbol.address, symbol.size

    @functools.cached_property
    def _whole(self) -> Program:
        """The program of all code, for kernels that call functions."""
        return Program(self._code_object, image=self._image)

    def program_of(self, kernel: str) -> Program:
        if kernel not in self._programs:
            part = _part(self._code_object, self._image, kernel)
            self._programs[kernel] = self._whole if _calls(part) else part
        return self._programs[kernel]


@functools.lru_cache(maxsize=64)
def load_module(code: bytes) -> Loaded:
    """Load a code object for launches.

    Parameters
    ----------
    code : bytes
        The ELF file.

    Returns
    -------
    Loaded
    """
    return _Large(code) if len(code) > _LARGE else _Whole(code)

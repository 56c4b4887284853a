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

from rocke_cupy.emulator.code_object import CodeObject, Kernel
from rocke_cupy.emulator.disassemble import disassemble
from rocke_cupy.emulator.program import Instruction, Program, instruction_records, load

_LARGE = 1 << 19  # bytes


class Loaded(Protocol):
    """What a module load gives."""

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels by name."""

    def symbol_address(self, name: str) -> tuple[int, int]:
        """Host address and size of a device variable."""

    def program_of(self, kernel: str) -> Program:
        """The program to launch for a kernel."""


class _Whole:
    """A code object of ordinary size."""

    def __init__(self, code: bytes) -> None:
        self._program = load(code)
        self.kernels = self._program.kernels
        self.symbol_address = self._program.symbol_address

    def program_of(self, kernel: str) -> Program:
        return self._program


class _OneKernel(Program):
    """The part of a large code object that one kernel is."""

    def __init__(self, code_object: CodeObject, image: np.ndarray, name: str) -> None:
        self.code_object = code_object
        self.image = image
        start = code_object.kernels[name].entry
        text = code_object.text[start : start + code_object.symbols[name].size]
        lines = [replace(line, offset=line.offset + start) for line in disassemble(text)]
        self.calls = any(line.text.startswith(("s_swappc", "s_setpc")) for line in lines)
        self.records, unknown = instruction_records(lines)
        self.instructions = tuple(
            Instruction(k, line.offset, line.size, line.text, unknown.get(k, ""))
            for k, line in enumerate(lines)
        )
        self.index_of_word = np.full(len(code_object.text) // 4 + 1, -1, np.int32)
        self.index_of_word[[line.offset // 4 for line in lines]] = np.arange(len(lines))


class _Large:
    """A code object whose kernels are made ready at their first launch."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._code_object = CodeObject(code)
        self._image = self._code_object.load_image()
        self._programs: dict[str, Program] = {}
        self.kernels = self._code_object.kernels

    def symbol_address(self, name: str) -> tuple[int, int]:
        symbol = self._code_object.symbols[name]
        return self._image.ctypes.data + symbol.address, symbol.size

    @functools.cached_property
    def _whole(self) -> Program:
        """All of it, for kernels that call functions."""
        program = Program(self._code)
        program.image = self._image
        return program

    def program_of(self, kernel: str) -> Program:
        if kernel not in self._programs:
            part = _OneKernel(self._code_object, self._image, kernel)
            self._programs[kernel] = self._whole if part.calls else part
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

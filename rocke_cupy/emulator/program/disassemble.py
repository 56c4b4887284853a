"""Machine code to LLVM's assembly text, with the comgr library that comes with hipRTC."""

from __future__ import annotations

import ctypes
import functools
import struct
from dataclasses import dataclass

from rocke_cupy.emulator.rocm.tools import rocm_tools

_KEPT = 1 << 17  # instructions
_LENGTHS = (1, 2, 4)  # of gfx950's instructions, in words
ISA = "amdgcn-amd-amdhsa--gfx950"


@dataclass(frozen=True)
class Line:
    """One instruction: byte offset and size within the section, text, first two words."""

    offset: int
    size: int
    text: str
    words: tuple[int, int]


_READ = ctypes.CFUNCTYPE(
    ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p
)
_PRINT = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
_ANNOTATE = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p)


class _Disassembler:
    """A comgr disassembly handle that reads one bytes object."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(str(rocm_tools().comgr))
        self._code = b""
        self._base = 0
        self._text = b""
        self._known: dict[tuple[int, ...], tuple[int, str]] = {}
        self._callbacks = (_READ(self._read), _PRINT(self._print), _ANNOTATE(lambda *_: None))
        self._handle = ctypes.c_uint64()
        status = self._library.amd_comgr_create_disassembly_info(
            ISA.encode(), *self._callbacks, ctypes.byref(self._handle)
        )
        if status:
            raise RuntimeError(f"comgr cannot disassemble {ISA} (status {status})")

    def _read(self, start: int, to: int, size: int, _data: object) -> int:
        start -= self._base
        part = self._code[start : start + size]
        ctypes.memmove(to, part, len(part))
        return len(part)

    def _print(self, text: bytes, _data: object) -> None:
        self._text = text

    def lines(self, code: bytes) -> list[Line]:
        # comgr takes address 0 for an error, so the section starts a little above it
        self._code, self._base = code, 0x1000
        words = (*struct.unpack_from(f"<{len(code) // 4}I", code), 0)
        found = []
        k = 0
        while k < len(words) - 1:
            size, text = self._seen(k, words) or self._one(k, words)
            found.append(Line(4 * k, size, text, (words[k], words[k + 1])))
            k += size // 4
        return found

    def _seen(self, k: int, words: tuple[int, ...]) -> tuple[int, str] | None:
        """Return what the same words gave before: a branch says by distance where it goes."""
        for length in _LENGTHS:
            if found := self._known.get(words[k : k + length]):
                return found
        return None

    def _one(self, k: int, words: tuple[int, ...]) -> tuple[int, str]:
        size = ctypes.c_uint64()
        status = self._library.amd_comgr_disassemble_instruction(
            self._handle, ctypes.c_uint64(self._base + 4 * k), None, ctypes.byref(size)
        )
        if status or not size.value:
            return 4, f".long 0x{words[k]:08x}"
        found = size.value, self._text.decode().strip().replace("\t", " ")
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[words[k : k + size.value // 4]] = found
        return found


@functools.cache
def _disassembler() -> _Disassembler:
    return _Disassembler()


def disassemble(code: bytes) -> list[Line]:
    """Disassemble gfx950 machine code.

    Parameters
    ----------
    code : bytes
        Instructions, for example the .text section of a code object.

    Returns
    -------
    list of Line
        In order. What is not an instruction appears as ``.long``.
    """
    return _disassembler().lines(code)

"""What hipModuleLoadData is given: a code object, or a bundle of code objects, found in memory."""

from __future__ import annotations

import ctypes
import struct

from rocke_cupy.emulator.device import hip_abi as abi
from rocke_cupy.emulator.program.code_object import EM_AMDGPU, MACH_GFX950, MACH_MASK

_BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__"
_COMPRESSED_BUNDLE = b"CCOB"
_ELF = b"\x7fELF"


def code_object_at(address: int) -> bytes:
    """Return the gfx950 code object in the image at `address` of this process's memory."""
    start = ctypes.string_at(address, 4)
    if start == _ELF:
        return _elf_at(address)
    if start == _COMPRESSED_BUNDLE:
        raise abi.Refused(
            abi.NO_BINARY_FOR_GPU,
            "the kernels are in a compressed offload bundle, which the virtual device cannot read",
        )
    if ctypes.string_at(address, len(_BUNDLE)) == _BUNDLE:
        return _elf_at(address + _entry_offset(address))
    raise abi.Refused(abi.INVALID_IMAGE, f"the image starts with {start!r}, it is no code object")


def _entry_offset(address: int) -> int:
    """Return where in an offload bundle the entry for gfx950 starts."""
    position = address + len(_BUNDLE)
    (count,) = struct.unpack("<Q", ctypes.string_at(position, 8))
    position += 8
    targets = []
    for _ in range(count):
        offset, _, length = struct.unpack("<QQQ", ctypes.string_at(position, 24))
        target = ctypes.string_at(position + 24, length).decode()
        position += 24 + length
        targets.append(target)
        if "--gfx950" in target:
            return offset
    raise abi.Refused(
        abi.NO_BINARY_FOR_GPU, f"the bundle has no code for gfx950, only {', '.join(targets)}"
    )


def _elf_at(address: int) -> bytes:
    header = ctypes.string_at(address, 64)
    (machine,) = struct.unpack_from("<H", header, 18)
    (section_table,) = struct.unpack_from("<Q", header, 40)
    (flags,) = struct.unpack_from("<I", header, 48)
    entry_size, entries = struct.unpack_from("<HH", header, 58)
    if machine != EM_AMDGPU or flags & MACH_MASK != MACH_GFX950:
        raise abi.Refused(
            abi.NO_BINARY_FOR_GPU,
            f"the code object is not for gfx950 (ELF machine {machine}, flags {flags:#x})",
        )
    # The section table comes last in what the compiler writes. Its last byte is a zero, which CuPy
    # strips from the string that it keeps; the memory behind a Python string holds it again.
    return ctypes.string_at(address, section_table + entry_size * entries)

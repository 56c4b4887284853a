"""Assembly text to machine code, with the comgr library that comes with hipRTC."""

from __future__ import annotations

import ctypes
import functools
import io

from elftools.elf.elffile import ELFFile

from rocke_cupy.emulator.disassemble import ISA
from rocke_cupy.emulator.rocm_tools import rocm_tools

# Numbers of amd_comgr.h.
_SOURCE, _LOG, _RELOCATABLE, _EXECUTABLE = 1, 5, 7, 8
_LINK, _ASSEMBLE = 7, 8


class AssemblyError(ValueError):
    """The assembler refused the text; the message is what it said."""


class _Handle(ctypes.Structure):
    """comgr passes its objects as structures of one number."""

    _fields_ = (("number", ctypes.c_uint64),)


def assemble(text: str) -> bytes:
    """Assemble gfx950 instructions.

    Parameters
    ----------
    text : str
        One instruction a line, as LLVM writes them.

    Returns
    -------
    bytes
        The machine code.
    """
    relocatable = _act(_ASSEMBLE, _SOURCE, text.encode() + b"\n", _RELOCATABLE)
    return ELFFile(io.BytesIO(relocatable)).get_section_by_name(".text").data()


def assemble_code_object(text: str) -> bytes:
    """Assemble a whole source with ``.amdhsa_kernel`` directives and link it.

    Parameters
    ----------
    text : str
        The assembly source.

    Returns
    -------
    bytes
        A code object that `rocke_cupy.emulator.run` takes.
    """
    relocatable = _act(_ASSEMBLE, _SOURCE, text.encode() + b"\n", _RELOCATABLE)
    return _act(_LINK, _RELOCATABLE, relocatable, _EXECUTABLE)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(rocm_tools().comgr))


def _call(name: str, *arguments: object) -> None:
    if status := getattr(_library(), name)(*arguments):
        raise RuntimeError(f"{name} failed with status {status}")


def _act(action: int, kind: int, data: bytes, result_kind: int) -> bytes:
    """Run one action of comgr on one input."""
    given, result, info, item = _Handle(), _Handle(), _Handle(), _Handle()
    _call("amd_comgr_create_data", kind, ctypes.byref(item))
    _call("amd_comgr_create_data_set", ctypes.byref(given))
    _call("amd_comgr_create_data_set", ctypes.byref(result))
    _call("amd_comgr_create_action_info", ctypes.byref(info))
    try:
        _call("amd_comgr_set_data", item, ctypes.c_size_t(len(data)), data)
        _call("amd_comgr_set_data_name", item, b"source.s" if kind == _SOURCE else b"source.o")
        _call("amd_comgr_data_set_add", given, item)
        _call("amd_comgr_action_info_set_isa_name", info, ISA.encode())
        _call("amd_comgr_action_info_set_logging", info, ctypes.c_bool(True))
        status = _library().amd_comgr_do_action(action, info, given, result)
        if status:
            log = b"\n".join(_data(result, _LOG)).decode(errors="replace").rstrip("\0\n ")
            raise AssemblyError(log or f"comgr action {action} failed with status {status}")
        return _data(result, result_kind)[0]
    finally:
        _call("amd_comgr_destroy_action_info", info)
        _call("amd_comgr_destroy_data_set", result)
        _call("amd_comgr_destroy_data_set", given)
        _call("amd_comgr_release_data", item)


def _data(handles: _Handle, kind: int) -> list[bytes]:
    count = ctypes.c_size_t()
    _call("amd_comgr_action_data_count", handles, kind, ctypes.byref(count))
    found = []
    for number in range(count.value):
        item, size = _Handle(), ctypes.c_size_t()
        where = (handles, kind, ctypes.c_size_t(number), ctypes.byref(item))
        _call("amd_comgr_action_data_get_data", *where)
        _call("amd_comgr_get_data", item, ctypes.byref(size), None)
        text = ctypes.create_string_buffer(size.value)
        _call("amd_comgr_get_data", item, ctypes.byref(size), text)
        _call("amd_comgr_release_data", item)
        found.append(text.raw)
    return found

"""Assembly text to machine code, with the comgr library that comes with hipRTC."""

from __future__ import annotations

import ctypes
import functools
import io

from elftools.elf.elffile import ELFFile

from rocke_cupy.emulator.core.gfx950 import MAX_THREADS
from rocke_cupy.emulator.program.disassemble import ISA
from rocke_cupy.emulator.rocm.tools import rocm_tools

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
    section = ELFFile(io.BytesIO(relocatable)).get_section_by_name(".text")
    return section.data() if section else b""


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


def assemble_kernel(
    name: str,
    body: str,
    *,
    pointers: int = 1,
    lds_size: int = 0,
    scratch_size: int = 0,
    vgprs: int = 64,
    accum_offset: int | None = None,
) -> bytes:
    """Make a code object of one kernel from its instructions.

    At its start s[0:1] points to the arguments, s2 to s4 are the workgroup's ids and v0 has the
    packed thread ids. fp32 denormals are flushed.

    Parameters
    ----------
    name, body : str
        The kernel's name and instructions.
    pointers : int
        Number of arguments, all of them pointers.
    lds_size, scratch_size : int
        Bytes of LDS for a workgroup and of scratch for a lane.
    vgprs : int
        Vector registers, the accumulation registers included.
    accum_offset : int, optional
        Where those start; behind all others by default.
    """
    offset = (accum_offset or vgprs + 3) // 4 * 4
    arguments = "\n".join(
        f"      - {{.offset: {8 * k}, .size: 8, .value_kind: global_buffer}}"
        for k in range(pointers)
    )
    text = _KERNEL.format(
        name=name,
        body=body,
        lds_size=lds_size,
        scratch_size=scratch_size,
        kernarg_size=8 * pointers,
        vgprs=vgprs,
        accum_offset=offset,
        max_threads=MAX_THREADS,
        arguments=f"    .args:\n{arguments}" if pointers else "",
    )
    return assemble_code_object(text)


_KERNEL = """
.text
.globl {name}
.p2align 8
.type {name},@function
{name}:
{body}
.size {name}, . - {name}
.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel {name}
  .amdhsa_group_segment_fixed_size {lds_size}
  .amdhsa_private_segment_fixed_size {scratch_size}
  .amdhsa_kernarg_size {kernarg_size}
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_y 1
  .amdhsa_system_sgpr_workgroup_id_z 1
  .amdhsa_system_vgpr_workitem_id 2
  .amdhsa_next_free_vgpr {vgprs}
  .amdhsa_next_free_sgpr 96
  .amdhsa_accum_offset {accum_offset}
  .amdhsa_float_denorm_mode_32 0
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: {name}
    .symbol: {name}.kd
    .kernarg_segment_size: {kernarg_size}
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds_size}
    .private_segment_fixed_size: {scratch_size}
    .max_flat_workgroup_size: {max_threads}
    .wavefront_size: 64
    .sgpr_count: 96
    .vgpr_count: {vgprs}
{arguments}
...
.end_amdgpu_metadata
"""


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

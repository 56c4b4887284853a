"""What is needed of a code object (ELF): kernels, their descriptors and metadata, code, data."""

from __future__ import annotations

import functools
import io
import struct
from dataclasses import dataclass
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection
from elftools.elf.segments import NoteSegment

from rocke_cupy.emulator.core.gfx950 import MAX_THREADS
from rocke_cupy.emulator.program.source_lines import SourceLines

# The ELF header: machine number, and the architecture in the low byte of e_flags (LLVM's table).
EM_AMDGPU = 224
MACH_MASK, MACH_GFX950 = 0xFF, 0x4F

_NOTE_METADATA = 32
_XNACK_ANY, _XNACK_ON = 1, 3
_RELATIVE64, _ABS64, _ABS32, _GLOB_DAT = 13, 3, 6, 15


class CodeObjectError(ValueError):
    """The bytes are not a code object that the emulator can run; the message says why."""


@dataclass(frozen=True)
class Argument:
    """One kernel argument as the metadata describes it."""

    kind: str
    offset: int
    size: int
    name: str = ""


@dataclass(frozen=True)
class Kernel:
    """A kernel's descriptor and metadata.

    Attributes
    ----------
    name : str
        The symbol that a launch names.
    entry : int
        Offset of its first instruction in .text.
    lds_size, scratch_size, kernarg_size : int
        Bytes of static LDS for a workgroup, of scratch for a lane, and of arguments.
    vgprs, agprs, sgprs : int
        Registers that the compiler counts.
    dynamic_stack : bool
        Whether it needs more scratch than the compiler can tell: for recursion and calls through
        pointers.
    accum_offset : int
        Where the accumulation registers start in the unified register file.
    """

    name: str
    entry: int
    lds_size: int
    scratch_size: int
    kernarg_size: int
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    max_workgroup: int
    arguments: tuple[Argument, ...]
    dynamic_stack: bool
    accum_offset: int
    allocated_vgprs: int
    float_mode: int
    properties: int
    user_sgprs: int
    workgroup_ids: tuple[bool, bool, bool]
    work_item_dims: int
    preload_length: int
    preload_offset: int

    @property
    def explicit_arguments(self) -> list[Argument]:
        """The arguments that a launch gives; the runtime adds the others."""
        return [a for a in self.arguments if not a.kind.startswith("hidden_")]

    def takes(self, kind: str) -> bool:
        """Say whether it has an argument of a kind of the metadata, such as "hidden_grid_dims"."""
        return any(argument.kind == kind for argument in self.arguments)


@dataclass(frozen=True)
class Symbol:
    """A name in the loaded image."""

    name: str
    address: int
    size: int
    is_function: bool = False


class CodeObject:
    """A parsed code object.

    Parameters
    ----------
    code : bytes
        The ELF file. A missing last byte is tolerated: CuPy drops it.

    Attributes
    ----------
    abi_version : int
        2, 3 and 4 are code object versions 4, 5 and 6.
    xnack_may_be_on : bool
        Whether it may run where memory instructions are replayed after a page fault.
    """

    def __init__(self, code: bytes) -> None:
        try:
            # The file ends with a section header whose last byte is zero.
            self._elf = ELFFile(io.BytesIO(code + b"\0"))
            machine = self._elf.header["e_machine"]
        except Exception as error:
            raise CodeObjectError(f"not an ELF code object ({len(code)} bytes): {error}") from error
        if machine not in ("EM_AMDGPU", EM_AMDGPU):
            raise CodeObjectError(f"not an AMD GPU code object: its ELF machine is {machine}")
        flags = self._elf.header["e_flags"]
        if (arch := flags & MACH_MASK) != MACH_GFX950:
            raise CodeObjectError(f"the code object is not for gfx950 (ELF architecture {arch:#x})")
        text = self._elf.get_section_by_name(".text")
        if text is None:
            raise CodeObjectError("the code object has no .text section")
        self.abi_version: int = self._elf.header["e_ident"]["EI_ABIVERSION"]
        self.xnack_may_be_on = flags >> 8 & 3 in (_XNACK_ANY, _XNACK_ON)
        self.text: bytes = text.data()
        self.text_address: int = text["sh_addr"]
        self.symbols = {symbol.name: symbol for symbol in self._symbols()}
        self.kernels = {kernel.name: kernel for kernel in self._kernels()}

    def _symbols(self) -> list[Symbol]:
        return [
            Symbol(
                symbol.name,
                symbol["st_value"],
                symbol["st_size"],
                symbol["st_info"]["type"] == "STT_FUNC",
            )
            for section in self._elf.iter_sections()
            if isinstance(section, SymbolTableSection)
            for symbol in section.iter_symbols()
            if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"
        ]

    def _metadata(self) -> list[dict[str, Any]]:
        for segment in self._elf.iter_segments():
            if not isinstance(segment, NoteSegment):
                continue
            for note in segment.iter_notes():
                if note["n_name"] == "AMDGPU" and note["n_type"] in (
                    _NOTE_METADATA,
                    "NT_AMDGPU_METADATA",
                ):
                    data = note["n_descdata"] if "n_descdata" in note else note["n_desc"]
                    raw = data if isinstance(data, bytes) else data.encode("latin-1")
                    return msgpack.unpackb(raw, strict_map_key=False)["amdhsa.kernels"]
        raise CodeObjectError("the code object has no AMDGPU metadata note")

    def _read(self, address: int, size: int) -> bytes:
        for segment in self._elf.iter_segments():
            start = segment["p_vaddr"]
            if segment["p_type"] == "PT_LOAD" and start <= address < start + segment["p_filesz"]:
                return segment.data()[address - start : address - start + size]
        raise CodeObjectError(f"no data at address {address:#x}")

    def _kernels(self) -> list[Kernel]:
        return [self._kernel(data) for data in self._metadata()]

    def _kernel(self, data: dict[str, Any]) -> Kernel:
        name = data[".name"]
        address = self.symbols[data[".symbol"]].address
        raw = self._read(address, 64)
        lds, scratch, kernarg, entry = struct.unpack_from("<III4xq", raw)
        rsrc3, rsrc1, rsrc2, properties, preload = struct.unpack_from("<IIIHH", raw, 44)
        if properties >> 10 & 1:
            raise CodeObjectError(f"kernel {name} is for wavefronts of 32 lanes")
        # Code for loading preloaded arguments by hand stands in the first 256 bytes; the hardware
        # that preloads them starts after it.
        skipped = 256 if preload & 0x7F else 0
        return Kernel(
            name=name,
            entry=address + entry + skipped - self.text_address,
            lds_size=lds,
            scratch_size=scratch,
            kernarg_size=kernarg,
            vgprs=data.get(".vgpr_count", 0),
            agprs=data.get(".agpr_count", 0),
            sgprs=data.get(".sgpr_count", 0),
            vgpr_spills=data.get(".vgpr_spill_count", 0),
            sgpr_spills=data.get(".sgpr_spill_count", 0),
            max_workgroup=data.get(".max_flat_workgroup_size", MAX_THREADS),
            arguments=tuple(
                Argument(a[".value_kind"], a[".offset"], a[".size"], a.get(".name", ""))
                for a in data.get(".args", ())
            ),
            dynamic_stack=bool(properties >> 11 & 1),
            accum_offset=((rsrc3 & 0x3F) + 1) * 4,
            allocated_vgprs=((rsrc1 & 0x3F) + 1) * 8,
            float_mode=rsrc1 >> 12 & 0xFF,
            properties=properties,
            user_sgprs=rsrc2 >> 1 & 0x1F,
            workgroup_ids=(bool(rsrc2 >> 7 & 1), bool(rsrc2 >> 8 & 1), bool(rsrc2 >> 9 & 1)),
            work_item_dims=rsrc2 >> 11 & 3,
            preload_length=preload & 0x7F,
            preload_offset=preload >> 7,
        )

    def load_image(self) -> np.ndarray:
        """Return the segments as one relocated block of memory, ready to be executed from.

        Returns
        -------
        numpy.ndarray
            Bytes; address 0 of the code object is its first element.
        """
        segments = [s for s in self._elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        size = max(s["p_vaddr"] + s["p_memsz"] for s in segments)
        block = np.zeros(size + 4096, np.uint8)
        image = block[-block.ctypes.data % 4096 :][:size]
        for segment in segments:
            data = np.frombuffer(segment.data(), np.uint8)
            image[segment["p_vaddr"] : segment["p_vaddr"] + len(data)] = data
        self._relocate(image)
        return image

    def _relocate(self, image: np.ndarray) -> None:
        base = image.ctypes.data
        for section in self._elf.iter_sections():
            if not isinstance(section, RelocationSection):
                continue
            symbols: Any = self._elf.get_section(section["sh_link"])
            for entry in section.iter_relocations():
                kind, where = entry["r_info_type"], entry["r_offset"]
                value = base + entry["r_addend"]
                if kind in (_ABS64, _GLOB_DAT):
                    value += symbols.get_symbol(entry["r_info_sym"])["st_value"]
                elif kind != _RELATIVE64:
                    raise CodeObjectError(f"relocation {kind} at {where:#x} is not supported")
                image[where : where + 8] = np.frombuffer(struct.pack("<Q", value), np.uint8)

    @functools.cached_property
    def source_lines(self) -> SourceLines:
        """The source lines of its code."""
        return SourceLines(self._elf, self.text_address)

"""What a kernel's descriptor and its code object promise, against what the code does."""

from __future__ import annotations

from dataclasses import replace

from rocke_cupy.emulator.core.gfx950 import LANES, LDS_BYTES, VGPRS
from rocke_cupy.emulator.hazards.operands import ACCUMULATION, access_of, is_vector
from rocke_cupy.emulator.lint.findings import Finding
from rocke_cupy.emulator.lint.graph import Graph
from rocke_cupy.emulator.program import Kernel, Program

_SIMDS = 4
_ABI_VERSIONS = {2: "4", 3: "5", 4: "6"}
_ENTRY_ALIGNMENT = 256


def wrong_descriptors(program: Program, graph: Graph) -> list[Finding]:
    """Return what is wrong with the kernels as a whole."""
    found = []
    version = program.code_object.abi_version
    for kernel in program.kernels.values():
        wrong = [
            ("K01", version not in _ABI_VERSIONS, f"its ELF ABI version is {version}"),
            ("K02", kernel.lds_size > LDS_BYTES, f"it asks for {kernel.lds_size:,} bytes"),
            ("K03", *_registers_missing(program, graph, kernel)),
            ("K04", *_too_wide(kernel)),
            ("K05", kernel.preload_length > 0, f"{kernel.preload_length} dwords"),
            (
                "K06",
                (program.code_object.text_address + kernel.entry) % _ENTRY_ALIGNMENT != 0,
                f"it starts at {program.code_object.text_address + kernel.entry:#x}",
            ),
        ]
        found += [Finding(rule, kernel.name, "", "", why) for rule, broken, why in wrong if broken]
    return found


def _registers_missing(program: Program, graph: Graph, kernel: Kernel) -> tuple[bool, str]:
    """Whether the kernel's code uses registers beyond those that are allocated."""
    entry = next(n for n in graph.entries if graph.blocks[n].start == program.entry(kernel))
    accesses = [
        access_of(program.instructions[index].text)
        for number in replace(graph, entries=(entry,)).reachable()
        for index in graph.blocks[number]
    ]
    used = {
        register
        for access in accesses
        for span in access.writes + access.reads
        for register in span
        if isinstance(register, int) and is_vector(register)
    }
    plain = max((r + 1 for r in used if r < ACCUMULATION), default=0)
    accumulation = max((r + 1 - ACCUMULATION for r in used if r >= ACCUMULATION), default=0)
    broken = plain > min(kernel.accum_offset, kernel.allocated_vgprs) or (
        accumulation > 0 and kernel.accum_offset + accumulation > kernel.allocated_vgprs
    )
    return broken, (
        f"it uses v0 to v{plain - 1}"
        + (f" and a0 to a{accumulation - 1}" if accumulation else "")
        + f"; accum_offset is {kernel.accum_offset}, allocated are {kernel.allocated_vgprs}"
    )


def _too_wide(kernel: Kernel) -> tuple[bool, str]:
    """Whether the largest workgroup finds no room in the registers of a compute unit."""
    waves = -(-kernel.max_workgroup // LANES)
    of_a_simd = -(-waves // _SIMDS)
    return of_a_simd * kernel.allocated_vgprs > VGPRS, (
        f"{of_a_simd} waves of {kernel.allocated_vgprs} registers on a SIMD with {VGPRS}"
    )

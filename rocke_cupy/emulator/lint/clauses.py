"""Runs of memory instructions, which are executed again as a whole where XNACK is on."""

from __future__ import annotations

from itertools import groupby

from rocke_cupy.emulator.hazards.operands import Access, Register, Span, access_of
from rocke_cupy.emulator.lint.findings import Finding, finding_at
from rocke_cupy.emulator.lint.graph import Graph
from rocke_cupy.emulator.program import Instruction, Program


def unsafe_runs(program: Program, graph: Graph) -> list[Finding]:
    """Return the memory instructions that must not stand right behind the ones before them.

    No way but one leads through a run: a branch ends it.
    """
    if not program.code_object.xnack_may_be_on:
        return []
    found = []
    for kind, run in groupby(program.instructions, lambda i: access_of(i.text).kind):
        if kind in ("vmem", "smem"):
            found += [
                finding_at(program, index, "R29", why, states=0, needed=1)
                for index, why in _unsafe(list(run))
            ]
    return found


def _unsafe(run: list[Instruction]) -> list[tuple[int, str]]:
    found = []
    written: set[Register] = set()
    read: set[Register] = set()
    for instruction in run:
        access = access_of(instruction.text)
        results, sources = _registers(access.writes), _registers(access.reads)
        why = ""
        if written and _stores(access):
            why = "it stores behind a load"
        elif written and (written | results) & (read | sources):
            why = "one of them writes what another reads"
        if why:
            found.append((instruction.index, why))
            written, read = set(), set()
        written |= results
        read |= sources
    return found


def _registers(spans: tuple[Span, ...]) -> set[Register]:
    return {register for span in spans for register in span}


def _stores(access: Access) -> bool:
    return "_store_" in access.mnemonic or "_atomic" in access.mnemonic or access.is_lds_dma

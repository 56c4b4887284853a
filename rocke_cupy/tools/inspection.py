"""``python -m rocke_cupy inspect``: what a kernel's code object costs, without a GPU."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..emulator import hiprtc, lint
from ..emulator.mix import KINDS, LdsSite, Mix, kind_of, mix_between
from ..emulator.timing import Pace, Phase, phases
from ..spec import TILE, AttentionDenseSpec
from .block import kernel_of, run_block

_TURNS = 8
"""Turns of the loop that the longer run has on top of the shorter one, and the shorter one too."""
_STALLS = 10


@dataclass(frozen=True)
class Inspection:
    """A kernel's resources, and what it executes per wave and 64-key tile.

    Attributes
    ----------
    kernel : str
    compiler : str
        What compiled it: a generation of hipRTC, or a clang in its place.
    vgprs, agprs, sgprs, vgpr_spills, sgpr_spills : int
        Registers of a lane or wave, and how many of them the compiler spilled.
    scratch_bytes, lds_bytes, code_bytes : int
        Of a lane, of a workgroup, and of the code.
    loop : Mix
        One tile without masks: the difference of two lengths, so that neither prologue nor
        epilogue counts.
    masked_valu : float
        Vector ALU instructions that a masked tile executes on top, transcendentals excluded.
    pace : Pace
        Modelled cycles of a tile without masks; ``pace.limit`` is the unit that bounds it.
    phases : list of list of Phase
        Modelled cycles between the barriers of one turn of the loop, of a wave of each group.
    stalls : list of (str, float)
        The instructions before which waves wait longest, and modelled cycles a tile and wave.
    findings : list of Finding
        What the linter finds in the code object.
    """

    kernel: str
    compiler: str
    vgprs: int
    agprs: int
    sgprs: int
    vgpr_spills: int
    sgpr_spills: int
    scratch_bytes: int
    lds_bytes: int
    code_bytes: int
    loop: Mix
    masked_valu: float
    pace: Pace
    phases: list[list[Phase]]
    stalls: list[tuple[str, float]]
    findings: list[lint.Finding]


def inspect_kernel(spec: AttentionDenseSpec, rocm: str = "7.0") -> Inspection:
    """Compile a spec's kernel and count what it executes on the emulator.

    Parameters
    ----------
    spec : AttentionDenseSpec
        Its shape does not matter: the binary has none.
    rocm : {"7.0", "7.14"}
        Generation of hipRTC.
    """
    kernel = kernel_of(spec, rocm)
    turn = 2 * spec.block_n
    short, long = (
        run_block(spec, n * turn, rocm=rocm, races=False, timing=True) for n in (_TURNS, 2 * _TURNS)
    )
    # One key less hides the last one of the last tile from all waves.
    masked = run_block(spec, 2 * _TURNS * turn - 1, rocm=rocm, races=False)
    tiles, waves = _TURNS * turn / TILE, spec.num_waves
    loop = mix_between(short, long, tiles * waves)
    assert short.timing
    assert long.timing
    stalls = (long.timing.stalls_at - short.timing.stalls_at) / (tiles * waves)
    worst = [int(k) for k in np.argsort(-stalls)[:_STALLS] if stalls[k] >= 1]
    return Inspection(
        kernel=kernel.name,
        compiler=hiprtc.compiler_name(rocm),
        vgprs=kernel.vgprs,
        agprs=kernel.agprs,
        sgprs=kernel.sgprs,
        vgpr_spills=kernel.vgpr_spills,
        sgpr_spills=kernel.sgpr_spills,
        scratch_bytes=kernel.scratch_size,
        lds_bytes=kernel.lds_size,
        code_bytes=len(long.program.code_object.text),
        loop=loop,
        masked_valu=mix_between(long, masked, waves).kinds["valu"],
        pace=short.timing.between(long.timing, tiles),
        phases=[
            phases(
                long.program, long.timing.traces[wave], round(loop.kinds["barrier"] * turn / TILE)
            )
            for wave in (0, waves // 2)
        ],
        stalls=[(long.program.instructions[k].text, float(stalls[k])) for k in worst],
        findings=lint.check(long.program),
    )


def as_text(inspection: Inspection) -> str:
    """Return an inspection as a table."""
    i, loop = inspection, inspection.loop
    notes = {
        "waitcnt": f"{loop.vmcnt0:g} of them vmcnt(0)",
        "nop": f"{loop.nop_states:g} wait states",
        "valu": f"a masked tile: {i.masked_valu:g} more",
    }
    lines = [
        f"{i.kernel}  ({i.compiler})",
        f"registers   {i.vgprs} VGPR, {i.agprs} AGPR, {i.sgprs} SGPR; "
        f"spilled: {i.vgpr_spills} VGPR, {i.sgpr_spills} SGPR; scratch {i.scratch_bytes} B",
        f"LDS         {i.lds_bytes:,} B          code {i.code_bytes:,} B",
        "",
        f"executed per wave and {TILE}-key tile without masks",
    ]
    for kind, meaning in KINDS.items():
        note = notes.get(kind, "")
        lines.append(f"  {kind:<10}{loop.kinds[kind]:>8g}   {meaning}{'; ' + note if note else ''}")
    lines += [f"  {'total':<10}{loop.total:>8g}", "", "LDS reads"]
    for name, read in loop.lds_reads.items():
        how = "immediate offsets" if read.immediate else "ADDRESSES COMPUTED IN THE LOOP"
        lines.append(
            f"  {name:<22}{read.count:>6g}   {read.cycles:g} cycles each, {read.lost:g} more for "
            f"bank conflicts; {read.address_registers} address registers, {how}"
        )
    lines += _conflicts_of(loop.lds_sites)
    valu = {n: c for n, c in loop.mnemonics.items() if n.startswith("v_") and "mfma" not in n}
    lines += ["", "vector instructions"]
    lines += [f"  {name:<26}{count:>8g}" for name, count in valu.items()]
    lines += ["", f"one tile without masks, {i.pace}"]
    for group, found in enumerate(i.phases):
        lines.append(f"phases of group {group}: cycles, + wait at the barrier, instructions")
        lines += [f"  {p.cycles:>6g} +{p.waited:>4g}   {_kinds_of(p)}" for p in found]
    lines.append("longest waits before an instruction, cycles")
    lines += [f"  {cycles:>8.1f}   {text}" for text, cycles in i.stalls]
    lines += ["", f"hazards and errata: {len(i.findings)} findings", *map(str, i.findings)]
    return "\n".join(lines)


def _conflicts_of(sites: list[LdsSite]) -> list[str]:
    """Return a line with the sum over all reads, and one for each that loses cycles."""
    lost = [site for site in sites if site.lost]
    total = sum(site.count * site.lost for site in lost)
    return [
        f"  bank conflicts: {total:g} cycles a tile, "
        f"in {len(lost)} of the code's {len(sites)} reads",
        *(f"  {s.lost:>10g} in each of {s.count:g}: {s.offset:#06x} {s.text}" for s in lost),
    ]


def _kinds_of(phase: Phase) -> str:
    kinds: Counter[str] = Counter()
    for name, count in phase.mnemonics.items():
        kinds["dma" if name.startswith("buffer_load") else kind_of(name)] += count
    return ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind])


def _plain(value: Any) -> Any:
    """Return dictionaries and lists of what JSON knows; `dataclasses.asdict` garbles a Counter."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def as_json(inspection: Inspection) -> str:
    """Return an inspection as JSON."""
    fields = _plain(inspection)
    fields["loop"]["total"] = inspection.loop.total
    fields["pace"]["limit"] = inspection.pace.limit
    return json.dumps(fields, indent=2)

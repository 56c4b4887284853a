"""Which registers an instruction reads and writes, read off LLVM's text.

The semantics tables of the core know this too, but only of instructions that the emulator executes;
the linter looks at anybody's code. What is stated here is how many of the printed operands are
results, and what is used without being printed.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rocke_cupy.emulator.program.operands import NAMED_SCALARS
from rocke_cupy.emulator.program.text import split, without_suffix

Register = int | str
"""A number for v, a and s registers; a name for what has none, such as "vccz"."""
Span = tuple[Register, ...]
Kind = Literal["salu", "smem", "valu", "trans", "dot", "mfma", "lds", "vmem"]

ACCUMULATION = 256
"""Number of a0; v0 is 0."""
_FILES = {"v": 0, "a": ACCUMULATION, "s": 512}
_NAMED = {name: (512 + first, width) for name, (first, width) in NAMED_SCALARS.items()}


def scalars(name: str) -> Span:
    """Return the registers of a named scalar, for example ``vcc``."""
    first, width = _NAMED[name]
    return tuple(range(first, first + width))


VCC, EXEC, M0 = scalars("vcc"), scalars("exec"), scalars("m0")
VCCZ, EXECZ, VSKIP = "vccz", "execz", "vskip"
_VSKIP = 28  # its bit in MODE


def is_vector(register: Register) -> bool:
    """Whether it is a v or a register."""
    return isinstance(register, int) and register < _FILES["s"]


def is_scalar(register: Register) -> bool:
    """Whether it is an SGPR, VCC, M0 or EXEC."""
    return isinstance(register, int) and register >= _FILES["s"]


def name_of(span: Span) -> str:
    """Return registers as LLVM writes them."""
    first = span[0]
    if isinstance(first, str):
        return first
    for name, (start, width) in _NAMED.items():
        if first == start and len(span) == width:
            return name
    letter = max((f for f in _FILES if _FILES[f] <= first), key=_FILES.__getitem__)
    start = first - _FILES[letter]
    return f"{letter}{start}" if len(span) == 1 else f"{letter}[{start}:{start + len(span) - 1}]"


@dataclass(frozen=True)
class Access:
    """What an instruction does to registers.

    Attributes
    ----------
    mnemonic : str
        Without encoding suffix.
    kind : str
        The unit it goes to; "trans" and "dot" are vector instructions with rules of their own.
    writes, reads : tuple of Span
        In the order of the text; a result that is also a source is in both.
    sources : tuple of Span
        The printed operands that are not results; empty spans for what is no register.
    modifiers : mapping of str to str
        Empty strings for those without a value.
    dpp : bool
        Whether the first source comes from other lanes.
    """

    mnemonic: str
    kind: Kind
    writes: tuple[Span, ...]
    reads: tuple[Span, ...]
    sources: tuple[Span, ...]
    modifiers: Mapping[str, str] = field(hash=False)
    dpp: bool = False

    @property
    def is_vector_alu(self) -> bool:
        """Whether the vector ALU executes it, matrix instructions included."""
        return self.kind in ("valu", "trans", "dot", "mfma")

    @property
    def is_lds_dma(self) -> bool:
        """Whether it loads from memory to LDS."""
        return self.kind == "vmem" and _to_lds(self.mnemonic, self.modifiers)

    @property
    def writes_part(self) -> bool:
        """Whether the result goes to a chosen half or byte of its register."""
        return any(bits(self.modifiers.get("op_sel", ""))[len(self.sources) :])


def bits(modifier: str) -> list[int]:
    """Return the bits of a modifier such as ``[0,1]``."""
    return [int(bit) for bit in re.findall(r"\d", modifier)]


@functools.lru_cache(1 << 16)
def access_of(text: str) -> Access:
    """Return what an instruction does to registers.

    Parameters
    ----------
    text : str
        As LLVM prints it.
    """
    full, operands, words = split(text)
    mnemonic = without_suffix(full)
    modifiers = {name: value for name, _, value in (word.partition(":") for word in words)}
    kind = _kind(mnemonic)
    spans = [_span(operand) for operand in operands]
    count = _results(mnemonic, kind, modifiers)
    results, sources = spans[:count], spans[count:]
    dpp = bool(_DPP & modifiers.keys())
    updated = results if dpp or _reads_result(mnemonic, kind, modifiers, len(sources)) else []
    if mnemonic.startswith(("v_swap", "v_permlane")):
        results = spans
    return Access(
        mnemonic=mnemonic,
        kind=kind,
        writes=tuple(span for span in [*results, *_implied_writes(mnemonic)] if span),
        reads=tuple(span for span in [*sources, *updated, *_implied_reads(mnemonic)] if span),
        sources=tuple(sources),
        modifiers=modifiers,
        dpp=dpp,
    )


# ---- operands ----

_PLAIN = re.compile(r"([vsa])(?:(\d+)|\[(\d+)(?::(\d+))?\])$")
_SIGNS = re.compile(r"^(?:neg|abs|sext)\((.*)\)$|^-?\|(.*)\|$|^-(?=[vsa|])(.*)$")


def _span(operand: str) -> Span:
    while found := _SIGNS.match(operand):
        operand = next(part for part in found.groups() if part is not None)
    if found := _PLAIN.match(operand):
        first = int(found[2] or found[3])
        base = _FILES[found[1]]
        return tuple(range(base + first, base + int(found[4] or first) + 1))
    if operand in _NAMED:
        return scalars(operand)
    if operand.startswith("hwreg("):
        return _hardware_register(operand)
    return (operand.removeprefix("src_"),) if operand in ("src_vccz", "src_execz") else ()


def _hardware_register(operand: str) -> Span:
    name, *part = operand.removeprefix("hwreg(").rstrip(")").split(", ")
    first, size = map(int, part or ("0", "32"))
    switches_vskip = name == "HW_REG_MODE" and first <= _VSKIP < first + size
    return (name, VSKIP) if switches_vskip else (name,)


# ---- kinds ----

_TRANS = re.compile(r"v_(exp|log|rcp|rcp_iflag|rsq|sqrt|sin|cos)(_legacy)?_f(16|32|64)$")
_MATRIX = re.compile(r"v_s?mfmac?_(scale_)?[fi]\d+_\d+x")
_VMEM = ("buffer_", "tbuffer_", "global_", "flat_", "scratch_")
_SMEM = re.compile(r"s_(load|store|buffer|scratch|dcache|mem(real)?time|atc_probe|atomic)")
_DPP = frozenset(
    {
        "quad_perm", "row_shl", "row_shr", "row_ror", "row_mirror", "row_half_mirror",
        "row_bcast", "row_newbcast", "wave_shl", "wave_shr", "wave_rol", "wave_ror",
    }
)  # fmt: skip


def _kind(mnemonic: str) -> Kind:
    if mnemonic.startswith("v_"):
        if _MATRIX.match(mnemonic):
            return "mfma"
        if mnemonic.startswith("v_dot"):
            return "dot"
        return "trans" if _TRANS.match(mnemonic) else "valu"
    if mnemonic.startswith("ds_"):
        return "lds"
    if mnemonic.startswith(_VMEM):
        return "vmem"
    return "smem" if _SMEM.match(mnemonic) else "salu"


# ---- results ----

# With a carry or a scale beside the value.
_TWO_RESULTS = re.compile(r"v_(add|sub|subrev|addc|subb|subbrev)_co_|v_div_scale_|v_mad_[ui]64_")
_NO_RESULT = {
    "salu": re.compile(
        r"s_(cmp|bitcmp|setreg|nop|wait|branch|cbranch|barrier|endpgm|sleep|set|sendmsg|trap|icache"
        r"|incperf|decperf|ttrace|rfe|code_end)"
    ),
    "smem": re.compile(r"s_(store|buffer_store|scratch_store|dcache|atc_probe)"),
    "valu": re.compile(r"v_(nop|clrexcp|mfma_ld_scale)"),
}
_LDS_RESULT = re.compile(r"ds_(read|bpermute|permute|swizzle|append|consume|ordered|condx)|.*_rtn")


def _results(mnemonic: str, kind: Kind, modifiers: Mapping[str, str]) -> int:
    """Return how many of the printed operands are results."""
    if kind == "lds":
        return 1 if _LDS_RESULT.match(mnemonic) else 0
    if kind == "vmem":
        if "atomic" in mnemonic:
            return 1 if modifiers.keys() & {"sc0", "glc"} else 0
        return 1 if "_load_" in mnemonic and not _to_lds(mnemonic, modifiers) else 0
    if (pattern := _NO_RESULT.get(kind)) and pattern.match(mnemonic):
        return 0
    return 2 if _TWO_RESULTS.match(mnemonic) else 1


def _to_lds(mnemonic: str, modifiers: Mapping[str, str]) -> bool:
    return "lds" in modifiers or "_lds_" in mnemonic


_ACCUMULATES = re.compile(r"v_(pk_)?(fmac|mac)_|v_dot\d+c_|v_smfmac_|v_writelane|v_swap|v_permlane")
_SCALAR_UPDATE = re.compile(r"s_(cmov|bitset|addk|mulk)")


def _reads_result(mnemonic: str, kind: Kind, modifiers: Mapping[str, str], sources: int) -> bool:
    """Whether the result's old value matters: as a source, or because a part of it stays."""
    if kind == "vmem":
        return mnemonic.startswith("buffer_atomic") or "_d16" in mnemonic
    if kind == "lds":
        return "_d16" in mnemonic
    return bool(
        _ACCUMULATES.match(mnemonic)
        or _SCALAR_UPDATE.match(mnemonic)
        or modifiers.get("dst_unused") == "UNUSED_PRESERVE"
        or any(bits(modifiers.get("op_sel", ""))[sources:])
    )


def _implied_writes(mnemonic: str) -> list[Span]:
    changes_exec = mnemonic.startswith("v_cmpx") or mnemonic.endswith(
        ("saveexec_b64", "wrexec_b64")
    )
    if mnemonic.startswith("s_set_gpr_idx") and mnemonic != "s_set_gpr_idx_off":
        return [M0]
    return [EXEC] if changes_exec else []


def _implied_reads(mnemonic: str) -> list[Span]:
    if mnemonic.startswith(("v_div_fmas", "s_cbranch_vcc")):
        return [VCC]
    if mnemonic.endswith(("saveexec_b64", "wrexec_b64")) or mnemonic.startswith("s_cbranch_exec"):
        return [EXEC]
    return []

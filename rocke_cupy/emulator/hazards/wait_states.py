"""The wait states that gfx950 asks software for, as locks that instructions put on registers.

A lock says for how many wait states its registers must not be used in a certain way. Every
instruction is one wait state, s_nop N is N + 1. `RULES` says where each rule is from.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from rocke_cupy.emulator.hazards.mfma import operands_of, waits_after
from rocke_cupy.emulator.hazards.operands import (
    EXEC,
    EXECZ,
    M0,
    VCC,
    VCCZ,
    VSKIP,
    Access,
    Register,
    Span,
    access_of,
    bits,
    is_scalar,
    is_vector,
)
from rocke_cupy.emulator.hazards.single import may_take_zero, needs_all_lanes
from rocke_cupy.emulator.timing.matrix import timing_of

Chain = tuple[str, Span]

FOREVER = 1 << 20
"""Wait states of a lock that only another one ends."""
LONGEST = 20
"""The most wait states that any other lock lasts."""


@dataclass(frozen=True)
class Lock:
    """What an instruction forbids to those behind it.

    Attributes
    ----------
    use : str
        The way of using the registers: a rule's number, and if it has several, which.
    registers : Span
    states : int
        Wait states.
    chain : tuple, optional
        Uses of the same chain need only `chained` states.
    chained : int
    """

    use: str
    registers: Span
    states: int
    chain: Chain | None = None
    chained: int = 0

    @property
    def rule(self) -> str:
        """Number of the rule."""
        return self.use.partition(" ")[0]

    @property
    def longest(self) -> int:
        """Wait states after which it forbids nothing."""
        return max(self.states, self.chained)


@dataclass(frozen=True)
class Use:
    """What an instruction does that a lock may forbid."""

    use: str
    registers: Span
    chain: Chain | None = None

    def needs(self, lock: Lock) -> int:
        """Return the wait states between the lock's instruction and this one."""
        return lock.chained if self.chain and self.chain == lock.chain else lock.states


@dataclass(frozen=True)
class Marks:
    """What an instruction means to the rules."""

    states: int
    locks: tuple[Lock, ...]
    uses: tuple[Use, ...]
    multiplies: bool
    needs_all_lanes: bool
    may_take_zero: bool


@functools.lru_cache(1 << 16)
def marks_of(text: str) -> Marks:
    """Return what an instruction means to the rules.

    Parameters
    ----------
    text : str
        As LLVM prints it.
    """
    access = access_of(text)
    states = int(text.split()[1], 0) + 1 if access.mnemonic == "s_nop" else 1
    return Marks(
        states=states,
        locks=tuple(_locks(access)),
        uses=tuple(_uses(access)),
        multiplies=access.kind == "mfma",
        needs_all_lanes=needs_all_lanes(access.mnemonic),
        may_take_zero=may_take_zero(access),
    )


# ---- the first instruction ----

_AFTER_VECTOR_WRITES_SCALAR = {
    "R01": 5, "R02": 2, "R03": 4, "R05": 4, "R06": 4, "R11": 4, "R19 exec": 5,
}  # fmt: skip
_PART_OF_FP8 = re.compile(r"v_cvt_(scalef32_)?(sr_)?(pk_)?(fp8|bf8)_")
_FP4 = re.compile(r"v_cvt_scalef32_(sr_)?pk_fp4_")


def _locks(access: Access) -> Iterator[Lock]:
    if access.kind == "mfma":
        yield from _locks_of_matrix(access)
    elif access.is_vector_alu:
        yield from _locks_of_vector(access)
    elif access.kind == "vmem":
        yield from _locks_of_store(access)
    elif access.kind == "salu":
        yield from _locks_of_scalar(access)
    for span in access.writes:
        if is_vector(span[0]):
            yield Lock("R19", span, 2)
        if halves := set(VCC) & set(span):
            yield Lock("R26", (VCCZ,), FOREVER if len(halves) == 1 else 0)


def _locks_of_vector(access: Access) -> Iterator[Lock]:
    for span in access.writes:
        if is_scalar(span[0]):
            for use, states in _AFTER_VECTOR_WRITES_SCALAR.items():
                yield Lock(use, span, states)
            for whole, zero in ((VCC, VCCZ), (EXEC, EXECZ)):
                if set(whole) & set(span):
                    yield Lock("R23", (zero,), 5)
            continue
        yield Lock("R04", span, 1)
        yield Lock("R20", span, 2)
        if access.kind == "dot":
            yield Lock("R17", span, 3, chain=(access.mnemonic, ()))
        else:
            yield Lock("R10", span, 2)
        if access.kind == "trans":
            yield Lock("R07", span, 1)
        if _moves_result(access):
            yield Lock("R08", span, 1)
    if access.mnemonic.startswith("v_cmpx"):
        yield Lock("R20 exec", EXEC, 4)


def _moves_result(access: Access) -> bool:
    """Whether the result is moved to its place in the register, after it was computed."""
    if _PART_OF_FP8.match(access.mnemonic):
        return any(bits(access.modifiers.get("op_sel", ""))[2:])
    part = access.modifiers.get("dst_sel", "DWORD") != "DWORD"
    return part or access.writes_part or bool(_FP4.match(access.mnemonic))


def _locks_of_matrix(access: Access) -> Iterator[Lock]:
    modifiers = access.modifiers
    timing = timing_of(access.mnemonic, modifiers.get("cbsz", "0"), modifiers.get("blgp", "0"))
    waits, registers = waits_after(timing), operands_of(access)
    chain = (access.mnemonic, registers.result)
    yield Lock("R12 xdl", registers.result, waits.c_of_xdl, chain, waits.same_c)
    yield Lock("R12 other", registers.result, waits.c_of_others, chain, waits.same_c)
    yield Lock("R13", registers.result, waits.matrix_input)
    yield Lock("R14 vector", registers.result, waits.vector)
    yield Lock("R14 memory", registers.result, waits.memory)
    yield Lock("R15", registers.result, waits.write)
    if waits.write_c and registers.c:
        yield Lock("R16", registers.c, waits.write_c)
    if timing.family == "dgemm":
        yield Lock("R18", ("fp64",), 2)


def _locks_of_store(access: Access) -> Iterator[Lock]:
    """Yield the lock of a store of more than 8 bytes, which reads its data late."""
    buffer = access.mnemonic.startswith("buffer_")
    data: Span = ()
    if "_store_" in access.mnemonic or "_atomic_" in access.mnemonic:
        first = [*access.writes, *access.sources] if buffer else access.sources[1:]
        data = first[0] if first else ()
    if len(data) > 2:
        offset_in_sgpr = buffer and bool(access.sources[-1])
        yield Lock("R09", data, 1 if offset_in_sgpr else 2)


def _locks_of_scalar(access: Access) -> Iterator[Lock]:
    if M0 in access.writes:
        yield Lock("R21", M0, 1)
    if access.mnemonic.startswith("s_setreg"):
        (register, *rest) = access.sources[0]
        yield Lock("R22", (register,), 2)
        if register == "HW_REG_TRAPSTS":
            yield Lock("R24", (register,), 1)
        if rest:
            yield Lock("R25", (VSKIP,), 2)


# ---- the second instruction ----

_READS_LANES = ("v_readlane_b32", "v_readfirstlane_b32")
_READS_M0 = re.compile(r"s_(sendmsg|ttracedata|movrel)|ds_(gws|\w+_addtid)")


def _uses(access: Access) -> Iterator[Use]:
    if access.kind == "mfma":
        yield from _uses_of_matrix(access)
    elif access.is_vector_alu:
        yield from _uses_of_vector(access)
    if access.is_vector_alu:
        yield from _uses_of_any_vector(access)
    elif access.kind == "vmem":
        yield from _uses_of_memory(access)
        yield Use("R01", (*_only(is_scalar, access.reads), *EXEC))
    elif access.kind == "lds":
        yield from _uses_of_memory(access)
    elif access.kind == "salu":
        yield from _uses_of_scalar(access)
    if _READS_M0.match(access.mnemonic) or access.is_lds_dma or "gds" in access.modifiers:
        yield Use("R21", M0)
    if access.kind not in ("salu", "smem"):
        yield Use("R25", (VSKIP,))


def _only(wanted: Callable[[Register], bool], spans: Iterable[Span]) -> Span:
    return tuple(register for span in spans for register in span if wanted(register))


def _uses_of_any_vector(access: Access) -> Iterator[Use]:
    """Yield what holds for matrix instructions too."""
    read, written = _only(is_vector, access.reads), _only(is_vector, access.writes)
    if access.kind != "trans":
        yield Use("R07", read)
    yield Use("R08", (*read, *written))
    yield Use("R09", written)
    yield Use("R02", _only(is_scalar, access.reads))


def _uses_of_vector(access: Access) -> Iterator[Use]:
    read, written = _only(is_vector, access.reads), _only(is_vector, access.writes)
    yield Use("R14 vector", read)
    yield from _writes_over(written)
    yield from _uses_around_dot(access)
    yield Use("R23", tuple(r for span in access.reads for r in span if r in (VCCZ, EXECZ)))
    name = access.mnemonic
    if access.dpp:
        yield Use("R19", read)
        yield Use("R19 exec", EXEC)
    if name in _READS_LANES:
        yield Use("R04", read)
    if name in _READS_LANES or name == "v_writelane_b32":
        yield Use("R03", EXEC)
    if name in ("v_readlane_b32", "v_writelane_b32"):
        yield Use("R05", _only(is_scalar, access.sources[1:]))
    if name.startswith("v_div_fmas"):
        yield Use("R06", VCC)
    if name.startswith("v_permlane"):
        yield Use("R20", read)
        yield Use("R20 exec", EXEC)
    if name in ("v_fma_f64", "v_fmac_f64"):
        yield Use("R18", ("fp64",))


def _writes_over(registers: Span) -> Iterator[Use]:
    yield Use("R15", registers)
    yield Use("R16", registers)


def _uses_around_dot(access: Access) -> Iterator[Use]:
    """Dot products of one kind may follow each other through C."""
    through = (access.mnemonic, ()) if access.kind == "dot" else None
    yield Use("R17", _only(is_vector, access.sources[:2]))
    yield Use("R17", _only(is_vector, (*access.reads, *access.writes)), through)


def _uses_of_matrix(access: Access) -> Iterator[Use]:
    registers = operands_of(access)
    yield Use("R10", _only(is_vector, access.reads))
    yield Use("R11", EXEC)
    yield Use("R13", tuple(register for span in registers.inputs for register in span))
    xdl = timing_of(access.mnemonic).family == "xdl"
    yield Use("R12 xdl" if xdl else "R12 other", registers.c, (access.mnemonic, registers.c))


def _uses_of_memory(access: Access) -> Iterator[Use]:
    read, written = _only(is_vector, access.reads), _only(is_vector, access.writes)
    yield Use("R14 memory", read)
    yield Use("R17", (*read, *written))
    yield from _writes_over(written)


def _uses_of_scalar(access: Access) -> Iterator[Use]:
    if access.mnemonic in ("s_getreg_b32", "s_setreg_b32", "s_setreg_imm32_b32"):
        yield Use("R22", access.sources[0][:1])
    if access.mnemonic.startswith("s_rfe"):
        yield Use("R24", ("HW_REG_TRAPSTS",))
    if access.mnemonic in ("s_cbranch_vccz", "s_cbranch_vccnz"):
        yield Use("R26", (VCCZ,))

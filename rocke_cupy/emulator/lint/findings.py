"""What the linter found."""

from __future__ import annotations

from dataclasses import dataclass

from rocke_cupy.emulator.hazards.rules import RULES
from rocke_cupy.emulator.program import Program


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule.

    Attributes
    ----------
    rule : str
        Number of the rule; `rocke_cupy.emulator.hazards.rules.RULES` has its text and source.
    place : str
        ``symbol+0x...``, or a kernel's name if it is about the kernel as a whole.
    instruction : str
        As LLVM prints it, or empty.
    source : str
        ``file:line``, or empty when the code has no debug lines.
    message : str
        What is wrong there.
    states, needed : int, optional
        Wait states that there are on the shortest way, and that the rule asks for.
    """

    rule: str
    place: str
    instruction: str
    source: str
    message: str
    states: int | None = None
    needed: int | None = None

    def __str__(self) -> str:
        where = f"{self.place}: {self.instruction}" if self.instruction else self.place
        source = f"  ({self.source})" if self.source else ""
        return f"{where}{source}\n    {self.rule}: {RULES[self.rule].text}; {self.message}"


def finding_at(
    program: Program,
    index: int,
    rule: str,
    message: str,
    *,
    states: int | None = None,
    needed: int | None = None,
) -> Finding:
    """Make a finding about one instruction."""
    instruction = program.instructions[index]
    return Finding(
        rule=rule,
        place=program.label(instruction.offset),
        instruction=instruction.text,
        source=program.code_object.source_lines.at(instruction.offset),
        message=message,
        states=states,
        needed=needed,
    )

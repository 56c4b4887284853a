"""Break a compiled kernel in one place, to see whether a check notices.

A mutation weakens one wait or removes one barrier, by one instruction word of the code object:
nothing else moves. `mutations` lists those of a kernel, `mutate` applies one, and `survivors` runs
a check on each.

    python -m rocke_cupy.emulator.mutate CODE_OBJECT [KERNEL]

prints what can be mutated in anybody's gfx950 code object.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from rocke_cupy.emulator.program import Instruction, Program, load
from rocke_cupy.emulator.program.waits import LGKMCNT_MAX, VMCNT_MAX, Wait

_SOPP_S_NOP = 0xBF800000


@dataclass(frozen=True)
class Mutation:
    """One instruction word to be replaced.

    Attributes
    ----------
    index : int
        The instruction's index in the program.
    offset : int
        Its byte offset in .text.
    word : int
        The word that takes its place.
    change : str
        In words: what it was and what it becomes.
    """

    index: int
    offset: int
    word: int
    change: str


def instructions_of(program: Program, kernel: str) -> tuple[Instruction, ...]:
    """Return the instructions between a kernel's entry and the end of its symbol."""
    entry = program.kernels[kernel].entry
    symbol = program.code_object.symbols[kernel]
    end = symbol.address - program.code_object.text_address + symbol.size
    return tuple(i for i in program.instructions if entry <= i.offset < end)


def mutations(program: Program, kernel: str) -> list[Mutation]:
    """List the waits that can be weakened and the barriers that can be removed.

    A change that cannot matter, because the next instruction waits for the same, is left out.

    Parameters
    ----------
    program : Program
        From `rocke_cupy.emulator.load`.
    kernel : str
        The kernel's name.

    Returns
    -------
    list of Mutation
        In the order of the code.
    """
    found = []
    code = instructions_of(program, kernel)
    for instruction, behind in zip_longest(code, code[1:]):
        if instruction.mnemonic == "s_barrier":
            found.append(
                Mutation(instruction.index, instruction.offset, _SOPP_S_NOP, "s_barrier removed")
            )
        if instruction.mnemonic == "s_waitcnt":
            found += _weakened(program, instruction, behind)
    return found


def _word(program: Program, instruction: Instruction) -> int:
    text = program.code_object.text
    return int.from_bytes(text[instruction.offset : instruction.offset + 4], "little")


def _weakened(
    program: Program, instruction: Instruction, behind: Instruction | None
) -> Iterator[Mutation]:
    word = _word(program, instruction)
    wait, after = Wait.of(word & 0xFFFF), Wait(VMCNT_MAX, LGKMCNT_MAX)
    if behind and behind.mnemonic == "s_waitcnt":
        after = Wait.of(_word(program, behind) & 0xFFFF)
    seen = {wait}
    for looser in wait.looser():
        if looser in seen or looser.before(after) == wait.before(after):
            continue
        seen.add(looser)
        yield Mutation(
            instruction.index,
            instruction.offset,
            word & 0xFFFF0000 | looser.immediate,
            wait.change_to(looser),
        )


def mutate(code: bytes, mutation: Mutation) -> bytes:
    """Return a code object with one instruction word replaced."""
    text: Any = ELFFile(io.BytesIO(code)).get_section_by_name(".text")
    place = text["sh_offset"] + mutation.offset
    return code[:place] + mutation.word.to_bytes(4, "little") + code[place + 4 :]


def survivors(
    code: bytes, kernel: str, check: Callable[[bytes], object]
) -> tuple[list[Mutation], int]:
    """Run a check on every mutation of a kernel.

    Parameters
    ----------
    code : bytes
        The code object.
    kernel : str
        The kernel's name.
    check : callable
        Takes a code object, and raises if something is wrong. It must pass on ``code`` itself.

    Returns
    -------
    silent : list of Mutation
        Those that `check` did not notice.
    total : int
        All that were tried.
    """
    check(code)
    tried = mutations(load(code), kernel)
    silent = []
    for mutation in tried:
        try:
            check(mutate(code, mutation))
        except Exception:
            continue
        silent.append(mutation)
    return silent, len(tried)


def main(arguments: list[str]) -> int:
    """Print the mutations of a code object's kernels."""
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    program = load(Path(arguments[0]).read_bytes())
    for kernel in arguments[1:] or program.kernels:
        for mutation in mutations(program, kernel):
            print(f"{program.describe(mutation.index)}  =>  {mutation.change}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

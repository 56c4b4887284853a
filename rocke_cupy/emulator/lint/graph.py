"""The ways through a code object: basic blocks and what may follow each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rocke_cupy.emulator.program import Program

_ENDS = ("s_endpgm", "s_setpc_b64", "s_rfe_b64", "s_branch")

State = TypeVar("State")


@dataclass(frozen=True)
class Graph:
    """Control flow of all kernels and functions of a code object.

    Attributes
    ----------
    blocks : tuple of range
        Instruction indices.
    successors : tuple of tuple of int
        By block, the blocks that may come next. A call comes back behind itself; where a register
        says where to go, nothing is followed.
    entries : tuple of int
        Blocks that kernels and functions start with.
    kernel_entries : frozenset of int
        Those of kernels.
    """

    blocks: tuple[range, ...]
    successors: tuple[tuple[int, ...], ...]
    entries: tuple[int, ...]
    kernel_entries: frozenset[int]

    def reachable(self) -> tuple[int, ...]:
        """Return the blocks that a way leads to."""
        return tuple(sorted(fixed_point(self, lambda _: 0, lambda _, state: state, max)))


def graph_of(program: Program) -> Graph:
    """Return the control flow of a program."""
    code = program.code_object
    starts = {s.address - code.text_address for s in code.symbols.values() if s.is_function}
    # A kernel with preloaded arguments has a second start, for hardware that does not preload.
    kernels = {kernel.entry for kernel in program.kernels.values()} | {
        code.symbols[name].address - code.text_address for name in program.kernels
    }
    index_of = {instruction.offset: instruction.index for instruction in program.instructions}
    functions = {index_of[offset] for offset in starts | kernels if offset in index_of}
    blocks = _split(program.blocks, functions)
    block_at = {block.start: number for number, block in enumerate(blocks)}
    return Graph(
        blocks=blocks,
        successors=tuple(_successors(program, block, block_at) for block in blocks),
        entries=tuple(sorted(block_at[index] for index in functions)),
        kernel_entries=frozenset(block_at[index_of[offset]] for offset in kernels),
    )


def _split(blocks: tuple[range, ...], at: set[int]) -> tuple[range, ...]:
    starts = sorted({block.start for block in blocks} | at)
    end = blocks[-1].stop if blocks else 0
    return tuple(range(a, b) for a, b in zip(starts, [*starts[1:], end], strict=True))


def _successors(program: Program, block: range, block_at: dict[int, int]) -> tuple[int, ...]:
    last = program.instructions[block[-1]]
    found = []
    if last.mnemonic.startswith(("s_branch", "s_cbranch")):
        found.append(block_at.get(int(program.records["target"][last.index]), -1))
    if not last.mnemonic.startswith(_ENDS):
        found.append(block_at.get(block.stop, -1))
    return tuple(dict.fromkeys(number for number in found if number >= 0))


def fixed_point(
    graph: Graph,
    at_entry: Callable[[int], State],
    through: Callable[[range, State], State],
    join: Callable[[State, State], State],
) -> dict[int, State]:
    """Return the state at the start of each block that can be reached, over all ways to it.

    Parameters
    ----------
    graph : Graph
    at_entry : callable
        Takes the number of a block that a kernel or function starts with.
    through : callable
        The state behind a block's instructions.
    join : callable
        What holds when either of two states may be the case.
    """
    states: dict[int, State] = {number: at_entry(number) for number in graph.entries}
    waiting = list(graph.entries)
    while waiting:
        number = waiting.pop()
        after = through(graph.blocks[number], states[number])
        for successor in graph.successors[number]:
            before = states.get(successor)
            joined = after if before is None else join(before, after)
            if joined != before:
                states[successor] = joined
                waiting.append(successor)
    return states

"""A code object made ready to run: kernels, instructions with text, and the core's records."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rocke_cupy.emulator.core.layouts import INSTRUCTION
from rocke_cupy.emulator.program.code_object import CodeObject, Kernel
from rocke_cupy.emulator.program.decode import decode
from rocke_cupy.emulator.program.decoded import Decoded
from rocke_cupy.emulator.program.disassemble import Line, disassemble
from rocke_cupy.emulator.program.gpr_index import modes_of
from rocke_cupy.emulator.program.operands import UnknownInstruction

_UNKNOWN_OP = 0xFFFF
_END = "the end of the code"
_BRANCHES = ("s_branch", "s_cbranch", "s_setpc", "s_swappc", "s_call", "s_endpgm", "s_trap")


@dataclass(frozen=True)
class Instruction:
    """An instruction of a program.

    Attributes
    ----------
    index : int
        Position among the program's instructions.
    offset, size : int
        Bytes within .text.
    text : str
        As LLVM prints it.
    unknown : str
        Why it is not modelled, or empty.
    """

    index: int
    offset: int
    size: int
    text: str
    unknown: str = ""

    @property
    def mnemonic(self) -> str:
        """The first word of the text, with its encoding suffix."""
        return self.text.partition(" ")[0]


class Program:
    """A loaded code object.

    Parameters
    ----------
    code_object : CodeObject
    lines : list of Line, optional
        The instructions to make ready; all of .text unless given.
    image : numpy.ndarray, optional
        The loaded segments, if they are already.

    Attributes
    ----------
    kernels : mapping of str to Kernel
        By the name that a launch gives.
    instructions : tuple of Instruction
        What was made ready, in order.
    image : numpy.ndarray
        The loaded, relocated segments; device globals live in it.
    """

    def __init__(
        self,
        code_object: CodeObject,
        lines: list[Line] | None = None,
        image: np.ndarray | None = None,
    ) -> None:
        self.code_object = code_object
        self._image = image
        if lines is None:
            lines = disassemble(code_object.text)
        self.records, unknown = instruction_records(lines)
        self.instructions = tuple(
            Instruction(k, line.offset, line.size, line.text, unknown.get(k, ""))
            for k, line in enumerate(lines)
        )
        self.index_of_word = np.full(len(self.code_object.text) // 4 + 1, -1, np.int32)
        self.index_of_word[[line.offset // 4 for line in lines]] = np.arange(len(lines))

    @property
    def kernels(self) -> Mapping[str, Kernel]:
        """The kernels by name."""
        return self.code_object.kernels

    @functools.cached_property
    def image(self) -> np.ndarray:
        """The loaded segments."""
        return self.code_object.load_image() if self._image is None else self._image

    @property
    def text_address(self) -> int:
        """The host's address of the code in the loaded image."""
        return self.image.ctypes.data + self.code_object.text_address

    def symbol_address(self, name: str) -> tuple[int, int]:
        """Return the host's address and the size of a device variable.

        Raises
        ------
        KeyError
            If the code object has no such name.
        """
        symbol = self.code_object.symbols[name]
        return self.image.ctypes.data + symbol.address, symbol.size

    def entry(self, kernel: Kernel) -> int:
        """Return the index of a kernel's first instruction."""
        return int(self.index_of_word[kernel.entry // 4])

    @functools.cached_property
    def blocks(self) -> tuple[range, ...]:
        """The instructions of each basic block, by index: no branch leads into its middle."""
        leaders = {0, *(self.entry(kernel) for kernel in self.kernels.values())}
        for instruction in self.instructions:
            if instruction.mnemonic.startswith(_BRANCHES):
                leaders |= {instruction.index + 1, int(self.records["target"][instruction.index])}
        inside = sorted(k for k in leaders if 0 <= k < len(self.instructions))
        return tuple(map(range, inside, [*inside[1:], len(self.instructions)]))

    def why_unknown(self, index: int) -> str:
        """Say why the instruction at an index cannot be run."""
        if index >= len(self.instructions):
            return f"the program ran past {_END}"
        return self.instructions[index].unknown or "a register past the kernel's allocation"

    def label(self, offset: int) -> str:
        """Return ``symbol+0x...`` for a byte of .text."""
        address = offset + self.code_object.text_address
        before = [
            s
            for s in self.code_object.symbols.values()
            if s.address <= address and s.address >= self.code_object.text_address
        ]
        if not before:
            return f".text+{offset:#x}"
        nearest = max(before, key=lambda s: s.address)
        return f"{nearest.name}+{address - nearest.address:#x}"

    def describe(self, index: int) -> str:
        """Return a line about an instruction: place, text, and source position if known."""
        if index >= len(self.instructions):
            return _END
        instruction = self.instructions[index]
        source = self.code_object.source_lines.at(instruction.offset)
        where = f"{self.label(instruction.offset)}: {instruction.text}"
        return f"{where}  ({source})" if source else where


def instruction_records(lines: list[Line]) -> tuple[np.ndarray, dict[int, str]]:
    """Return the records of disassembled lines, and one more for running past the end.

    Also returns why lines are not modelled, by index.
    """
    found, branches, unknown = [], {}, {}
    for k, (line, index_mode) in enumerate(zip(lines, modes_of(lines), strict=True)):
        try:
            record, branch = _record(line, index_mode)
        except UnknownInstruction as error:
            record, branch = _NEVER, None
            unknown[k] = str(error)
        found.append(record)
        if branch is not None:
            branches[k] = line.offset + line.size + 4 * branch
    records = np.frombuffer(b"".join([*found, _NEVER]), INSTRUCTION).copy()
    index_of = {line.offset: k for k, line in enumerate(lines)}
    for k, offset in branches.items():
        records["target"][k] = index_of.get(offset, -1)
    return records, unknown


def _empty_record() -> np.ndarray:
    record = np.zeros((), INSTRUCTION)
    record["op"] = _UNKNOWN_OP
    record["target"] = -1
    return record


_NEVER = _empty_record().tobytes()


_records: dict[tuple[str, int, int], tuple[bytes, int | None]] = {}
_RECORDS_KEPT = 1 << 17


def _record(line: Line, index_mode: int) -> tuple[bytes, int | None]:
    """Return the bytes of a line's record, and its branch distance in words if it has one.

    Kernels repeat themselves, and code objects each other: most lines have been seen before.
    """
    key = line.text, line.words[0], index_mode
    if found := _records.get(key):
        return found
    decoded = decode(line, index_mode)
    record = _empty_record()
    _fill(record, decoded)
    result = record.tobytes(), decoded.branch
    if not decoded.op.name.startswith(_KNOW_THEIR_PLACE):
        if len(_records) >= _RECORDS_KEPT:
            _records.clear()
        _records[key] = result
    return result


# Their records hold the address of the next instruction.
_KNOW_THEIR_PLACE = ("s_getpc_b64", "s_swappc_b64", "s_call_b64")


def _fill(record: np.ndarray, decoded: Decoded) -> None:
    record["op"] = decoded.op.number
    record["n_dst"], record["n_src"] = len(decoded.dst), len(decoded.src)
    record["flags"] = decoded.flags
    record["offset"], record["offset1"] = decoded.offset, decoded.offset1
    record["imm"] = decoded.imm
    record["dpp_ctrl"], record["dpp_rows"], record["dpp_banks"] = decoded.dpp
    for operands, target in ((decoded.dst, record["dst"]), (decoded.src, record["src"])):
        for k, o in enumerate(operands):
            target[k] = (o.kind, o.mods, o.sel, o.width, o.index, o.type, o.unused, o.value)


_KEPT = 64  # programs; whoever runs one holds it, so a limit only costs another decoding


@functools.lru_cache(_KEPT)
def load(code: bytes) -> Program:
    """Load a code object, or return it from a recent load of the same bytes.

    Parameters
    ----------
    code : bytes
        The ELF file, as hipRTC or clang writes it (CuPy's, one byte short, too).

    Returns
    -------
    Program

    Raises
    ------
    CodeObjectError
        If it is not a gfx950 code object.
    """
    return Program(CodeObject(code))

"""From machine code back to source lines, through functions that the compiler inlined."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elftools.dwarf.ranges import BaseAddressEntry, RangeEntry
from elftools.elf.elffile import ELFFile

_HEADER = re.compile(r"(^|/)(hiprtc_runtime\.h|__clang_\w+\.h|hip/\S+)$")
"""Headers of the runtime and of the compiler, in which nobody looks for a fault."""


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file; `path` is the file with its folder, as the compiler saw it."""

    path: str
    line: int

    @property
    def in_header(self) -> bool:
        """Whether the file belongs to the runtime or the compiler."""
        return _HEADER.search(self.path) is not None

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}:{self.line}"


class SourceLines:
    """The debug lines of a code object; without any, all places are unknown.

    Parameters
    ----------
    elf : ELFFile
    text_address : int
        Where .text starts: places are asked for by offset in it.
    """

    def __init__(self, elf: ELFFile, text_address: int) -> None:
        self._rows: list[tuple[int, Place]] = []
        # Of each inlined call: where its code starts and ends, how deep it is nested, and the call.
        self._calls: list[tuple[int, int, int, Place]] = []
        if not elf.has_dwarf_info():
            return
        dwarf = elf.get_dwarf_info()
        for unit in dwarf.iter_CUs():
            program = dwarf.line_program_for_CU(unit)
            if program is None:
                continue
            files = _files(program)
            self._rows += _rows(program, files, text_address)
            self._calls += _inlined(dwarf, unit, files, text_address)
        self._rows.sort()

    def at(self, offset: int) -> str:
        """Return ``file:line`` for a byte of .text, or nothing.

        In code that was inlined from a header of the runtime it is the line that calls it, with
        that of the header behind.
        """
        row = bisect_right(self._rows, offset, key=lambda row: row[0]) - 1
        if row < 0:
            return ""
        innermost = self._rows[row][1]
        if not innermost.in_header:
            return str(innermost)
        around = [(depth, call) for start, end, depth, call in self._calls if start <= offset < end]
        for _, call in sorted(around, reverse=True):
            if not call.in_header:
                return f"{call}, in {innermost}"
        return str(innermost)


def _files(program: Any) -> dict[int, str]:
    """Return the paths by the numbers that lines and calls give them."""
    # Files and folders are counted from 0 since DWARF 5, from 1 before.
    first = 0 if program["version"] >= 5 else 1
    folders = [folder.decode() for folder in program["include_directory"]]
    paths = {}
    for number, entry in enumerate(program["file_entry"], first):
        index = entry.dir_index - first
        folder = folders[index] + "/" if 0 <= index < len(folders) else ""
        paths[number] = folder + entry.name.decode()
    return paths


def _rows(program: Any, files: dict[int, str], text: int) -> Iterator[tuple[int, Place]]:
    for entry in program.get_entries():
        state = entry.state
        if state is not None and not state.end_sequence and state.line:
            yield state.address - text, Place(files[state.file], state.line)


def _inlined(
    dwarf: Any, unit: Any, files: dict[int, str], text: int
) -> Iterator[tuple[int, int, int, Place]]:
    def visit(entry: Any, depth: int) -> Iterator[tuple[int, int, int, Place]]:
        for child in entry.iter_children():
            if child.tag == "DW_TAG_inlined_subroutine":
                attributes = child.attributes
                file, line = (attributes[f"DW_AT_call_{what}"].value for what in ("file", "line"))
                for start, end in _ranges(dwarf, unit, child):
                    yield start - text, end - text, depth, Place(files[file], line)
            yield from visit(child, depth + 1)

    yield from visit(unit.get_top_DIE(), 0)


def _ranges(dwarf: Any, unit: Any, entry: Any) -> Iterator[tuple[int, int]]:
    attributes = entry.attributes
    if "DW_AT_ranges" in attributes:
        top = unit.get_top_DIE().attributes
        base = top["DW_AT_low_pc"].value if "DW_AT_low_pc" in top else 0
        lists = dwarf.range_lists()
        for found in lists.get_range_list_at_offset(attributes["DW_AT_ranges"].value, unit):
            if isinstance(found, BaseAddressEntry):
                base = found.base_address
            elif isinstance(found, RangeEntry):
                shift = 0 if found.is_absolute else base
                yield found.begin_offset + shift, found.end_offset + shift
    elif "DW_AT_low_pc" in attributes:
        start, length = attributes["DW_AT_low_pc"].value, attributes["DW_AT_high_pc"]
        yield start, length.value + (0 if length.form == "DW_FORM_addr" else start)

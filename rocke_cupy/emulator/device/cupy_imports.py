"""Which symbols of which ROCm libraries the installed CuPy wheel asks for."""

from __future__ import annotations

import importlib.util
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

INSTALL_COMMAND = "pip install cupy-rocm-7-0"
_RUNTIME = "libamdhip64.so"
_ROCM = ("libamd", "libhip", "libroc", "librccl")
_PACKAGES = ("cupy", "cupy_backends", "cupyx")


class CupyMissing(RuntimeError):  # noqa: N818 (reads as what it is)
    """There is no CuPy for ROCm in this environment; the message says how to install it."""


@dataclass
class Imports:
    """What CuPy's extension modules import.

    Attributes
    ----------
    libraries : set of str
        Names of the libraries that those with something from ROCm link.
    symbols : dict
        Undefined symbols and the version each asks for ("" for none).
    """

    libraries: set[str] = field(default_factory=set)
    symbols: dict[str, str] = field(default_factory=dict)

    def by_version(self, pattern: str) -> dict[str, list[str]]:
        """Return the symbols that match a regular expression, grouped by version."""
        groups = defaultdict(list)
        for name, version in sorted(self.symbols.items()):
            if re.match(pattern, name):
                groups[version].append(name)
        return dict(groups)


def cupy_folder() -> Path:
    """Return the folder that the ``cupy`` package is in, without importing it.

    Raises
    ------
    CupyMissing
        If there is none, or it is not built for ROCm.
    """
    spec = importlib.util.find_spec("cupy")
    if spec is None or spec.origin is None:
        raise CupyMissing(
            "the virtual device needs CuPy for ROCm, which is not installed here; "
            f"install it with: {INSTALL_COMMAND}"
        )
    return Path(spec.origin).parent.parent


def read_imports(folder: Path) -> Imports:
    """Read what the extension modules of CuPy in `folder` import from ROCm's libraries."""
    imports = Imports()
    for package in _PACKAGES:
        for path in sorted((folder / package).rglob("*.so")):
            _read_module(path, imports)
    if not any(name.startswith(_RUNTIME) for name in imports.libraries):
        raise CupyMissing(
            f"the CuPy in {folder} is not built for ROCm; in an environment without it: "
            f"{INSTALL_COMMAND}"
        )
    return imports


def _read_module(path: Path, imports: Imports) -> None:
    with path.open("rb") as file:
        try:
            elf = ELFFile(file)
        except ELFError:
            return
        dynamic = next((s for s in elf.iter_sections() if isinstance(s, DynamicSection)), None)
        symbols = elf.get_section_by_name(".dynsym")
        if dynamic is None or not isinstance(symbols, SymbolTableSection):
            return
        needed: Any = dynamic.iter_tags("DT_NEEDED")
        libraries = {tag.needed for tag in needed}
        if not any(name.startswith(_ROCM) for name in libraries):
            return
        imports.libraries |= libraries
        versions = _versions(elf)
        for index, symbol in enumerate(symbols.iter_symbols()):
            if symbol["st_shndx"] == "SHN_UNDEF" and symbol.name:
                imports.symbols[symbol.name] = versions(index)


def _versions(elf: ELFFile) -> Callable[[int], str]:
    """Return a function from the index of a symbol to the version that it asks for."""
    indices = next((s for s in elf.iter_sections() if isinstance(s, GNUVerSymSection)), None)
    needed = next((s for s in elf.iter_sections() if isinstance(s, GNUVerNeedSection)), None)
    names = {}
    for _, entries in needed.iter_versions() if needed else ():
        for entry in entries:
            names[entry["vna_other"]] = entry.name
    return lambda index: names.get(indices.get_symbol(index)["ndx"], "") if indices else ""

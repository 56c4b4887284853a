"""The legend of the semantics tables names every prefix and type that they use, and no other."""

import re
from pathlib import Path

from rocke_cupy.emulator.core import library
from rocke_cupy.emulator.program.operands import TYPES

OPS = Path(library.__file__).parent / "ops"
LEGEND = (OPS / "README.md").read_text()


def in_first_columns(text: str) -> set[str]:
    """What stands in backquotes in the first cells of tables."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_prefixes():
    used = {
        prefix
        for path in OPS.glob("*.inc")
        for prefix in re.findall(r"^([A-Z][A-Z0-9]*)\(\w", path.read_text(), re.MULTILINE)
    }
    assert len(used) > 30
    assert in_first_columns(LEGEND.partition("## Types")[0]) == used


def test_types():
    named = in_first_columns(LEGEND.partition("## Types")[2])
    pairs = {name for name in TYPES if name[0] == "p"}
    assert {name[1:] for name in pairs} <= named
    assert named - {"p"} == set(TYPES) - pairs

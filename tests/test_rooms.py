"""The rooms of the package: imports between them go one way, as docs/architecture.md draws them."""

import re

import pytest
from helpers.imports import PACKAGE, imports_of

# Each may import those before it. The emulator has rooms of its own: tests/emulator/test_rooms.py.
ROOMS = [
    "version", "cache", "arch", "rules", "spec", "kernels", "dense", "select", "gpu", "reference",
    "merge", "run", "attention", "distributed", "emulator", "tools", "__init__", "__main__",
]  # fmt: skip
FILES = [p for p in sorted(PACKAGE.rglob("*.py")) if "emulator" not in p.parts]


def room_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def rooms_imported_by(path):
    for name in imports_of(path):
        first, _, rest = name.partition(".")
        if first == "rocke_cupy":
            room = rest.partition(".")[0]
            yield room if room in ROOMS else "__init__"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_a_room_imports_what_lies_before_it(path):
    room = room_of(path)
    if room == "__init__":
        return
    assert set(rooms_imported_by(path)) - {room} <= set(ROOMS[: ROOMS.index(room)])


def test_the_architecture_page_names_every_module():
    page = (PACKAGE.parent / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`(?:[a-z_]+/)*([a-z_]+)(?:\.py)?`", page))
    modules = {p.stem for p in FILES if not p.stem.startswith("_")}
    assert modules - named == set()

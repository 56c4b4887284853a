"""The emulator's rooms: imports go one way, and others use its public names only."""

from pathlib import Path

import pytest
from helpers.imports import imports_of

import rocke_cupy.emulator as emulator

PACKAGE = Path(emulator.__file__).parent
EMULATOR = "rocke_cupy.emulator"

# Each room may import those before it. Those in front are what a user imports; what is behind them
# does not know them.
ROOMS = [
    "core", "rocm", "options", "program", "timing", "hazards", "execution", "device", "lint",
]  # fmt: skip
FRONT = ["assemble", "hiprtc", "mix", "mutate", "step", "__init__", "__main__"]
PUBLIC = {*emulator.__all__, *FRONT, "device", "lint", "timing", "options"}


def rooms_imported_by(path):
    names = (name for name in imports_of(path) if name.startswith(f"{EMULATOR}."))
    return {name.removeprefix(f"{EMULATOR}.").partition(".")[0] for name in names}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.name)
def test_a_room_imports_what_lies_below_it(path):
    room = path.relative_to(PACKAGE).with_suffix("").parts[0]
    imported = rooms_imported_by(path) - {room}
    assert imported <= set(ROOMS[: ROOMS.index(room)] if room in ROOMS else ROOMS + FRONT)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: p.name)
def test_the_emulator_knows_nothing_of_the_product_but_its_cache(path):
    ours = {name for name in imports_of(path) if name.startswith("rocke_cupy")}
    assert {name for name in ours if not name.startswith(EMULATOR)} <= {
        "rocke_cupy.cache",
        "rocke_cupy.cache.cache_dir",
        "rocke_cupy.cache.publish",
    }


def test_of_the_product_only_the_tools_know_the_emulator_and_only_its_public_names():
    product = [p for p in PACKAGE.parent.rglob("*.py") if PACKAGE not in p.parents]
    users = {path: rooms_imported_by(path) for path in product if rooms_imported_by(path)}
    assert users
    assert {path.parent.name for path in users} == {"tools"}
    assert set().union(*users.values()) <= PUBLIC

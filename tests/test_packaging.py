"""The wheel carries the sources, and they are found wherever the package lies."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

SHOW_SOURCES = (
    "import rocke_cupy.kernels.source as s, rocke_cupy; "
    "print(s.kernels_src()); print(s.sources_digest()); "
    "spec = rocke_cupy.AttentionDenseSpec(1, 256, 256, 2, 2, 64); "
    "print(len(rocke_cupy.build_attention_dense(spec).code))"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the tree, so that building leaves nothing in it."""
    copy = tmp_path_factory.mktemp("checkout") / "rocke_cupy"
    ignored = shutil.ignore_patterns(".*", "*.egg-info", "__pycache__", "build", "dist", "tests")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


@pytest.fixture(scope="module")
def wheel(checkout, tmp_path_factory):
    """A wheel built from the copy, with this environment's setuptools."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, checkout],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (built,) = folder.glob("*.whl")
    return built


def files_of(folder, *patterns):
    found = {p for pattern in patterns for p in folder.rglob(pattern) if p.is_file()}
    return {p.relative_to(folder).as_posix() for p in found if "__pycache__" not in p.parts}


def sources_seen_by(path, cwd):
    """Run a fresh interpreter that finds the package at ``path`` only."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", SHOW_SOURCES],
        env={**os.environ, "PYTHONPATH": str(path)},
        cwd=cwd,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    folder, digest, length = run.stdout.split()
    assert int(length) > 10_000
    return Path(folder), digest


def test_wheel_has_all_modules_and_sources(checkout, wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {f"rocke_cupy/{p}" for p in files_of(checkout / "rocke_cupy", "*.py")}
    sources = files_of(checkout / "kernels_src", "*.h", "*.hip")
    native = files_of(checkout / "rocke_cupy" / "emulator", "*.c", "*.h", "*.map", "*.json")
    expected = (
        modules
        | {f"rocke_cupy/kernels_src/{p}" for p in sources}
        | {f"rocke_cupy/emulator/{p}" for p in native}
    )
    assert len(sources) > 10
    assert len(modules) > 15
    assert expected - names == set()
    assert "rocke_cupy/py.typed" in names
    assert not [n for n in names if n.startswith(("tests", "docs", "examples"))]


def test_wheel_has_every_file_of_the_emulator(checkout, wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    everything = files_of(checkout / "rocke_cupy", "*")
    assert {f"rocke_cupy/{p}" for p in everything} - names == set()


def test_sources_are_found_in_an_installed_wheel(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    folder, digest = sources_seen_by(tmp_path, tmp_path)
    assert folder == tmp_path / "rocke_cupy" / "kernels_src"
    assert digest == sources_seen_by(ROOT, tmp_path)[1]


def test_sources_are_found_in_a_checkout(checkout, tmp_path):
    folder, digest = sources_seen_by(checkout, tmp_path)
    assert folder == checkout / "kernels_src"
    assert digest == sources_seen_by(ROOT, tmp_path)[1]


def test_an_installation_without_sources_says_so(checkout, tmp_path):
    shutil.copytree(checkout / "rocke_cupy", tmp_path / "rocke_cupy")
    run = subprocess.run(
        [sys.executable, "-c", SHOW_SOURCES],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert run.returncode
    assert "the HIP sources of rocke_cupy are neither in" in run.stderr

"""What `show_config` and the command line print."""

import importlib.metadata
import subprocess
import sys

import numpy as np
import pytest

import rocke_cupy
from rocke_cupy.__main__ import main
from rocke_cupy.arch import is_virtual
from rocke_cupy.emulator.device import variables

WORDS = ["rocke_cupy", "Python", "NumPy", np.__version__, "CuPy", "device", "cache folder"]


def test_show_config_names_versions_device_and_cache(capsys):
    rocke_cupy.show_config()
    printed = capsys.readouterr().out
    assert [word for word in WORDS if word not in printed] == []


def test_the_cache_folder_is_the_one_in_use(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ROCKE_CUPY_CACHE_DIR", str(tmp_path / "elsewhere"))
    rocke_cupy.show_config()
    assert str(tmp_path / "elsewhere") in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["config"]])
def test_command_line(arguments, capsys):
    main(arguments)
    assert "cache folder" in capsys.readouterr().out


def test_unknown_command_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["confg"])
    assert "confg" in capsys.readouterr().err


def test_without_cupy_it_says_so():
    # An interpreter that finds no CuPy at all.
    code = (
        "import sys; sys.modules['cupy'] = None\n"
        "import rocke_cupy; rocke_cupy.show_config()\n"
        "try: rocke_cupy.compile(64, 'float16')\n"
        "except ImportError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert "cannot be imported" in run.stdout
    assert "rocke_cupy[rocm7]" in run.stdout


def test_the_version_is_that_of_the_package():
    assert rocke_cupy.__version__ == importlib.metadata.version("rocke_cupy")


def test_a_virtual_device_is_known_by_what_the_emulator_sets(monkeypatch):
    monkeypatch.delenv(variables.ROOT, raising=False)
    assert not is_virtual()
    monkeypatch.setenv(variables.ROOT, "/somewhere")
    assert is_virtual()


@pytest.mark.parametrize("head_dim", ["300", "7", "-8", "0"])
def test_inspecting_a_kernel_that_does_not_exist_is_one_sentence(head_dim):
    with pytest.raises(SystemExit, match=f"no such kernel, head_size={head_dim} must be"):
        main(["inspect", "--d", head_dim])


def test_a_reader_who_has_had_enough_sees_no_traceback():
    run = subprocess.run(
        f"{sys.executable} -m rocke_cupy config | true", shell=True, capture_output=True, text=True
    )
    assert run.stderr == ""

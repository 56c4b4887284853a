"""What `show_config` and the command line print."""

import subprocess
import sys

import numpy as np
import pytest

import rocke_cupy
from rocke_cupy.__main__ import main

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

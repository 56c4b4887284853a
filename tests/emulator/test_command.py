"""``python -m rocke_cupy.emulator``: the program runs as it would without it, with a device."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from rocke_cupy import cache
from rocke_cupy.emulator import __main__ as command
from rocke_cupy.emulator.device import virtual_root
from rocke_cupy.emulator.device.cupy_imports import CupyMissing
from rocke_cupy.emulator.rocm.wheel import ToolsError

SPIN = '''
import cupy, sys
source = """extern "C" __global__ void spin(int* p, int n) {
    for (int i = 0; i < n; i++) p[i & 7] = i; }"""
kernel = cupy.RawModule(code=source).get_function("spin")
array = cupy.zeros(8, "i4")
kernel((1,), (1,), (array, cupy.int32(1)))
print("started", flush=True)
try:
    kernel((1,), (1,), (array, cupy.int32(2**31 - 1)))
    print("came back")
except KeyboardInterrupt:
    if len(sys.argv) < 2:
        raise
print("going on", array[:1].get())
'''


@pytest.fixture(scope="module", autouse=True)
def _prepared():
    """The root in the shared cache, so that what the tests run prints nothing of its set-up."""
    try:
        virtual_root.prepare()
    except (CupyMissing, ToolsError) as error:
        pytest.skip(str(error))


def run(*arguments, **options):
    """Run under the command, from an environment without the virtual device."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith("ROCKE_EMULATOR")}
    plain["PYTHONPATH"] = os.pathsep.join(options.pop("path", ()))
    plain.update(options.pop("variables", {}))
    return subprocess.run(
        [sys.executable, "-m", "rocke_cupy.emulator", *arguments],
        capture_output=True, text=True, timeout=120, env=plain, **options,
    )  # fmt: skip


def test_a_script_sees_its_arguments_its_folder_and_the_device(tmp_path):
    (tmp_path / "neighbour.py").write_text("value = 5")
    (tmp_path / "script.py").write_text(
        "import sys, cupy, neighbour\n"
        "print(sys.argv[1:], neighbour.value, cupy.cuda.runtime.getDeviceCount(), __name__)"
    )
    done = run(str(tmp_path / "script.py"), "--rocm", "-c", "x")
    assert done.stdout == "['--rocm', '-c', 'x'] 5 1 __main__\n"
    assert done.stderr == ""
    assert done.returncode == 0


def test_a_module_and_code_run_too(tmp_path):
    (tmp_path / "mine.py").write_text("import sys; print(sys.argv[1:])")
    assert run("-m", "mine", "a", cwd=tmp_path).stdout == "['a']\n"
    assert run("-c", "import sys; print(sys.argv)", "-x").stdout == "['-c', '-x']\n"


@pytest.mark.parametrize(
    ("code", "status"), [("raise SystemExit(7)", 7), ("1 / 0", 1), ("import os; os.abort()", -6)]
)
def test_the_exit_code_is_the_programs(code, status):
    assert run("-c", code).returncode == status


def test_a_process_that_the_program_starts_has_the_device_too():
    inner = (
        "import cupy; "
        "k = cupy.RawModule(code='extern \\\"C\\\" __global__ void k(int* p) { *p = 6; }')"
        ".get_function('k'); a = cupy.zeros(1, 'i4'); k((1,), (1,), (a,)); print(a.get())"
    )
    code = f'import subprocess, sys; subprocess.run([sys.executable, "-c", "{inner}"])'
    assert run("-c", code).stdout == "[6]\n"


def test_the_users_sitecustomize_runs_and_the_path_is_as_without(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = __file__")
    code = "import sys, sitecustomize; print(mine == sitecustomize.__file__); print(sys.path)"
    with_device = run("-c", code, path=[str(tmp_path)]).stdout.splitlines()
    assert with_device[0] == "True"
    plain = {**os.environ, "PYTHONPATH": str(tmp_path)}
    without = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=plain
    ).stdout.splitlines()
    path, expected = eval(with_device[1]), eval(without[1])
    assert path[: len(expected)] == expected
    assert set(path) - set(expected) <= {str(virtual_root.Path(virtual_root.__file__).parents[3])}


def test_an_error_in_the_users_sitecustomize_is_not_hidden(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import not_there")
    assert "not_there" in run("-c", "pass", path=[str(tmp_path)]).stderr


def test_options_reach_the_program(monkeypatch):
    code = (
        "import os; from rocke_cupy.emulator.device.settings import options; "
        "print(options().memory, options().schedule, os.environ['ROCKE_EMULATOR_ROCM'])"
    )
    done = run("--memory=eager", "--schedule", "random", "-c", code)
    assert done.stdout == "eager random 7.0\n"


def test_interpreter_flags_reach_the_program():
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-m", "rocke_cupy.emulator", "-c",
         "import warnings; warnings.warn('x')"], capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 1
    assert "UserWarning: x" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "a SCRIPT, -m MODULE or -c CODE is missing"),
        (["-m"], "-m needs an argument"),
        (["--rocm", "6.4", "x.py"], r"invalid choice: '6\.4'"),
        (["--memory", "x", "x.py"], "invalid choice: 'x'"),
        (["--nonsense", "x.py"], "unrecognized arguments: --nonsense"),
    ],
)
def test_wrong_options_are_said(capsys, arguments, text):
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert re.search(text, capsys.readouterr().err)


def test_help_tells_the_options(capsys):
    with pytest.raises(SystemExit) as caught:
        command.main(["--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("--rocm", "--memory", "--schedule", "-m MODULE"))


@pytest.mark.parametrize(
    "error",
    [
        CupyMissing("install it with: pip install cupy-rocm-7-0"),
        ToolsError("no network"),
        cache.CacheError("no space left"),
    ],
)
def test_what_the_machine_lacks_is_a_sentence(monkeypatch, capsys, error):
    def prepare(version, other):
        raise error

    monkeypatch.setattr(virtual_root, "prepare", prepare)
    assert command.main(["-c", "pass"]) == 1
    assert capsys.readouterr().err == f"rocke_cupy: {error}\n"


def test_ctrl_c_while_preparing_is_a_sentence(monkeypatch, capsys):
    def prepare(version, other):
        raise KeyboardInterrupt

    monkeypatch.setattr(virtual_root, "prepare", prepare)
    assert command.main(["-c", "pass"]) == 130
    assert "interrupted; the next run" in capsys.readouterr().err


@pytest.mark.parametrize("caught", [False, True])
def test_ctrl_c_in_a_kernel_is_a_keyboard_interrupt_in_the_script(caught):
    arguments = ["-c", SPIN, *(["catch"] if caught else [])]
    program = subprocess.Popen(
        [sys.executable, "-m", "rocke_cupy.emulator", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert program.stdout.readline() == "started\n"
    time.sleep(0.5)
    asked = time.monotonic()
    program.send_signal(signal.SIGINT)
    output, errors = program.communicate(timeout=60)
    assert time.monotonic() - asked < 10
    assert "came back" not in output
    if caught:
        assert program.returncode == 0
        assert output.startswith("going on [")
        assert errors == ""
    else:
        assert program.returncode == -signal.SIGINT
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert "CUDADriverError" not in errors


def test_two_devices_are_told_apart():
    code = """
import cupy, numpy
with cupy.cuda.Device(1):
    there = cupy.asarray(numpy.arange(4.0))
here = cupy.asarray(numpy.arange(4.0))
print(cupy.cuda.runtime.getDeviceCount(), here.device.id, there.device.id)
print(cupy.cuda.runtime.pointerGetAttributes(there.data.ptr).device)
kernel = cupy.RawModule(
    code='extern "C" __global__ void k(double* p) { p[threadIdx.x] += 1; }').get_function("k")
kernel((1,), (4,), (here,))
try:
    kernel((1,), (4,), (there,))
except Exception as error:
    print(str(error)[:22])
with cupy.cuda.Device(1):
    kernel((1,), (4,), (there,))
print(here.get() + there.get())
with cupy.cuda.Device(1):
    copied = cupy.asarray(here)
print(copied.device.id, copied.get())
stream = cupy.cuda.Stream()
with cupy.cuda.Device(1):
    try:
        kernel((1,), (4,), (there,), stream=stream)
    except Exception as error:
        print(error)
"""
    done = run("-c", code, variables={"ROCKE_EMULATOR_DEVICES": "2"})
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:4] == ["2 0 1", "1", "hipErrorLaunchFailure:", "[2. 4. 6. 8.]"]
    assert lines[4] == "1 [1. 2. 3. 4.]"
    assert "stream of device 0, current device 1" in lines[5]


def test_no_device_at_all_is_possible():
    code = "import cupy; print(cupy.cuda.is_available()); cupy.zeros(3)"
    done = run("-c", code, variables={"ROCKE_EMULATOR_DEVICES": "0"})
    assert done.stdout == "False\n"
    assert "hipErrorNoDevice: ROCKE_EMULATOR_DEVICES is 0" in done.stderr


def test_a_missing_package_is_a_sentence(tmp_path):
    (tmp_path / "msgpack.py").write_text("raise ModuleNotFoundError(name='msgpack')")
    done = run("-c", "pass", path=[str(tmp_path)])
    assert done.returncode == 1
    assert "needs msgpack, which is not installed" in done.stderr.splitlines()[-1]
    assert 'pip install "rocke_cupy[emulator]"' in done.stderr.splitlines()[-1]

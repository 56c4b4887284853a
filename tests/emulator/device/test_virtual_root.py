"""The virtual ROCm root: complete, made once, found by its environment."""

import errno
import os
import subprocess
import sys
import threading

import pytest

from rocke_cupy import cache
from rocke_cupy.emulator.core import compiler
from rocke_cupy.emulator.device import cupy_imports, stand_ins, variables, virtual_root
from rocke_cupy.emulator.rocm.tools import rocm_tools
from rocke_cupy.emulator.rocm.wheel import ToolsError


@pytest.fixture(scope="module")
def root():
    try:
        return virtual_root.prepare("7.0")
    except (cupy_imports.CupyMissing, ToolsError) as error:
        pytest.skip(str(error))


@pytest.fixture
def fresh(root, tmp_path, monkeypatch):
    """A cache folder that has the compilers and what they made, but no root."""
    shared = cache.cache_dir()
    own = tmp_path / "cache"
    own.mkdir()
    for name in ("rocm", "native"):
        (own / name).symlink_to(shared / name)
    monkeypatch.setenv(cache.VARIABLE, str(own))
    return own


@pytest.fixture(scope="module")
def imports(root):
    return cupy_imports.read_imports(cupy_imports.cupy_folder())


def test_has_every_library_that_cupy_links(root, imports):
    rocm = [n for n in imports.libraries if n.startswith(("libamd", "libhip", "libroc", "librccl"))]
    assert len(rocm) >= 10
    assert [name for name in rocm if not (root / "lib" / name).exists()] == []


def test_has_the_real_compiler_under_the_names_it_is_opened_by(root):
    tools = rocm_tools("7.0")
    assert (root / "lib" / "libhiprtc.so.7").samefile(tools.hiprtc)
    assert (root / "lib" / "libamd_comgr.so.3").samefile(tools.comgr)
    assert (root / "lib" / "libamdhip64.so").samefile(root / "lib" / "libamdhip64.so.7")
    assert not [p for p in (root / "lib").iterdir() if not p.exists()]


def test_its_hipcc_answers_cupys_question_and_no_other(root):
    question = ["-x", "hip", "-E", "-v", os.devnull]
    done = subprocess.run([root / "bin" / "hipcc", *question], capture_output=True, text=True)
    lines = done.stderr.splitlines()
    start = lines.index("#include <...> search starts here:")
    assert lines[start + 1 :] == [f" {root}/include", "End of search list."]
    other = subprocess.run([root / "bin" / "hipcc", "-c", "x.hip"], capture_output=True, text=True)
    assert other.returncode == 1
    assert "compiles nothing: use hipRTC" in other.stderr
    version = subprocess.run([root / "bin" / "hipcc", "--version"], capture_output=True, text=True)
    assert version.stdout.startswith("HIP version: 7.0")


def test_headers_of_the_cpp_library_have_no_suffix(root):
    names = {path.name for path in (root / "include").iterdir()}
    assert {"hip", "thrust", "cassert", "cstddef", "initializer_list"} <= names


def test_the_environment_puts_the_root_first_and_keeps_the_rest(root):
    base = {"PATH": "/usr/bin:/bin", "HOME": "/home/me", "PYTHONPATH": "/mine"}
    found = virtual_root.environment(root, "7.0", memory="eager", base=base)
    assert found["PATH"] == f"{root}/bin:/usr/bin:/bin"
    assert found["LD_LIBRARY_PATH"] == f"{root}/lib"
    assert found["PYTHONPATH"] == f"{root}/python:/mine"
    assert found["ROCM_HOME"] == str(root)
    assert found["HOME"] == "/home/me"
    assert found[variables.MEMORY] == "eager"
    assert variables.SCHEDULE not in found
    assert virtual_root.environment(root, "7.0", memory="eager", base=found) == found


def test_caches_of_two_rocm_versions_are_apart(root):
    one = virtual_root.environment(root, "7.0", base={})
    other = virtual_root.environment(root.with_name("rocm-7.14-0"), "7.14", base={})
    for name in ("CUPY_CACHE_DIR", "AMD_COMGR_CACHE_DIR"):
        assert one[name] != other[name]


def test_the_second_time_compiles_nothing(root, monkeypatch):
    monkeypatch.setattr(virtual_root, "_build", lambda *_: pytest.fail("built again"))
    assert virtual_root.prepare("7.0") == root


@pytest.mark.parametrize("changed", ["source", "cupy"])
def test_a_change_makes_another_root(root, tmp_path, monkeypatch, changed):
    cupy, tools = cupy_imports.cupy_folder(), rocm_tools("7.0")
    before = virtual_root._digest_of_root(cupy, tools)
    if changed == "source":
        copy = tmp_path / "hip_runtime"
        virtual_root.shutil.copytree(stand_ins.SOURCES, copy)
        (copy / "memory.c").write_text("/* changed */")
        monkeypatch.setattr(stand_ins, "SOURCES", copy)
    else:
        library = tmp_path / "cupy_backends" / "cuda" / "api" / "runtime.x.so"
        library.parent.mkdir(parents=True)
        library.write_text("")
        cupy = tmp_path
    assert virtual_root._digest_of_root(cupy, tools) != before


def test_two_processes_at_once_make_one_root(fresh):
    code = "from rocke_cupy.emulator.device import virtual_root as v; print(v.prepare('7.0'))"
    both = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert outputs[0][0] == outputs[1][0]
    assert sum("preparing the virtual MI355X" in errors for _, errors in outputs) == 1
    assert sum("waiting for another process" in errors for _, errors in outputs) <= 1
    assert [p.name for p in (fresh / "roots").iterdir() if not p.name.endswith(".lock")] == [
        virtual_root.Path(outputs[0][0].strip()).name
    ]


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [
        (compiler.CompilerError("x.c: No space left on device"), cache.CacheError, "no space left"),
        (compiler.CompilerError("x.c:1: syntax error"), compiler.CompilerError, "syntax error"),
        (OSError(errno.ENOSPC, "full"), cache.CacheError, "no space left"),
        (KeyboardInterrupt(), KeyboardInterrupt, "^$"),
    ],
)
def test_a_failed_preparation_leaves_nothing_and_the_next_recovers(
    fresh, monkeypatch, error, raised, text
):
    def fail(*_, **__):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(compiler, "build_library", fail)
        with pytest.raises(raised, match=text):
            virtual_root.prepare("7.0")
    assert [p.name for p in (fresh / "roots").iterdir() if not p.name.endswith(".lock")] == []
    made = fresh / "made.so"
    made.write_text("")
    monkeypatch.setattr(compiler, "build_library", lambda *_, **__: made)
    assert (virtual_root.prepare("7.0") / "lib" / "libamdhip64.so.7").exists()


def test_without_cupy_the_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(cupy_imports.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(cupy_imports.CupyMissing, match="pip install cupy-rocm-7-0"):
        virtual_root.prepare("7.0")


def test_a_cupy_for_cuda_is_told_apart(tmp_path):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "core.so").write_bytes(b"no library at all")
    with pytest.raises(cupy_imports.CupyMissing, match="is not built for ROCm"):
        cupy_imports.read_imports(tmp_path)


def test_symbols_come_with_their_versions(imports):
    assert imports.symbols["hipMalloc"] == "hip_4.2"
    assert imports.symbols["hipGetDevicePropertiesR0600"] == "hip_6.0"
    assert imports.symbols["hipblasSgemm"] == ""
    stubs, exports = stand_ins._generate(imports)
    assert "HIP_STUB(hipMalloc, 801)" in stubs
    assert "\nSTUB(hipblasSgemm, 7)" in stubs
    assert "hip_6.0 { global: hipGetDevicePropertiesR0600; };" in exports


def test_waiting_is_said(fresh, capsys):
    digest = virtual_root._digest_of_root(cupy_imports.cupy_folder(), rocm_tools("7.0"))
    root = fresh / "roots" / f"rocm-7.0-{digest}"
    held, waiting = threading.Event(), threading.Event()

    def hold():
        with cache.lock(root):
            held.set()
            waiting.wait(30)
            root.mkdir()

    thread = threading.Thread(target=hold)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(virtual_root, "say", lambda text: (print(text), waiting.set()))
        thread.start()
        assert held.wait(30)
        assert virtual_root.prepare("7.0") == root
    thread.join()
    assert "waiting for another process" in capsys.readouterr().out

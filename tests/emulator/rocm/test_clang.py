"""Another clang in hipRTC's place: for the package's own kernels, on the device and without it."""

import os
import subprocess
import sys

import pytest
from helpers.specs import spec

from rocke_cupy import build_attention_dense
from rocke_cupy.emulator import hiprtc, load
from rocke_cupy.emulator.rocm import clang

OTHER = 'extern "C" __global__ void fill(float* p) { p[threadIdx.x] = sinf(1); }'


@pytest.fixture
def kernel():
    return build_attention_dense(spec(head_size=64))


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program on PATH that says and does what a test wants."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def put(text):
        path = tmp_path / f"clang-{len(list(tmp_path.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path.name

    return put


def test_compiles_the_packages_kernels_from_the_same_source(kernel):
    ours = hiprtc.compile(kernel.code, kernel.options, clang=clang.ZIGLANG)
    theirs = hiprtc.compile(kernel.code, kernel.options)
    found, expected = (load(c.code).kernels[kernel.name] for c in (ours, theirs))
    assert ours.code != theirs.code
    assert (found.lds_size, found.vgpr_spills) == (expected.lds_size, 0)
    assert b"clang version" in ours.code


def test_leaves_all_other_programs_to_hiprtc():
    assert hiprtc.compile(OTHER, clang=clang.ZIGLANG) == hiprtc.compile(OTHER)


def test_says_what_it_refuses_with_the_line(kernel):
    broken = kernel.code.replace("static constexpr", "static constxpr", 1)
    with pytest.raises(hiprtc.CompileError, match=r"(?s)clang version.*refused.*static constxpr"):
        hiprtc.compile(broken, kernel.options, clang=clang.ZIGLANG)


def test_is_chosen_by_the_environment_too(monkeypatch):
    assert hiprtc.compiler_name("7.14") == "ROCm 7.14"
    monkeypatch.setenv(clang.VARIABLE, clang.ZIGLANG)
    assert hiprtc.compiler_name("7.14").startswith("clang version")


def test_another_version_is_another_entry_of_the_cache():
    chosen = clang.chosen_clang(clang.ZIGLANG)
    newer = clang.Clang(chosen.name, chosen.driver, chosen.linker, "clang version 99")
    assert newer.digest != chosen.digest


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo gcc 12", "does not say that it is a clang, but 'gcc 12'"),
        ("echo clang version 9; exit $#", "does not compile for gfx950, which needs LLVM 20"),
    ],
)
def test_a_program_that_cannot_do_it_is_refused(program, text, reason):
    with pytest.raises(clang.ClangError, match=reason):
        clang.chosen_clang(program(text))


def test_a_program_that_is_not_there_is_refused():
    with pytest.raises(clang.ClangError, match=r"clang='clang-0' is no program on PATH.*ziglang"):
        clang.chosen_clang("clang-0")


def on_the_device(*arguments):
    plain = {k: v for k, v in os.environ.items() if not k.startswith("ROCKE_EMULATOR")}
    return subprocess.run(
        [sys.executable, "-m", "rocke_cupy.emulator", *arguments],
        capture_output=True, text=True, timeout=300, env=plain,
    )  # fmt: skip


def test_the_virtual_device_runs_what_it_compiled(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import cupy as cp, numpy as np, rocke_cupy\n"
        "q = cp.random.standard_normal((1, 70, 2, 64)).astype(cp.float16)\n"
        "out = cp.asnumpy(rocke_cupy.attention(q, q, q, causal=True))\n"
        "q = cp.asnumpy(q)\n"
        "expected = rocke_cupy.reference.attention(q, q, q, causal=True)\n"
        "print(np.abs(out.astype(float) - expected.astype(float)).max() < 4e-3)\n"
    )
    done = on_the_device("--clang", clang.ZIGLANG, str(script))
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_a_kernel_that_it_refuses_is_cupys_compile_error(tmp_path):
    source = clang.FIRST_LINE + 'broken\nextern "C" __global__ void k() { no such thing; }'
    script = f"import cupy\ncupy.RawModule(code={source!r}).get_function('k')"
    done = on_the_device("--clang", clang.ZIGLANG, "-c", script)
    assert done.returncode == 1
    assert "CompileException" in done.stderr
    assert "no such thing" in done.stderr


def test_the_command_refuses_a_name_in_one_sentence():
    done = on_the_device("--clang", "clang-0", "-c", "")
    assert done.returncode == 1
    assert done.stderr.startswith("rocke_cupy: clang='clang-0' is no program on PATH")

"""Building kernels through CuPy: what a failure shows, and that nothing is built twice."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.specs import spec

import rocke_cupy
from rocke_cupy.gpu import calls
from rocke_cupy.kernels import build

pytestmark = pytest.mark.gpu

BROKEN = 'extern "C" __global__ void broken(int* p) {\n  *p = undeclared;\n}\n'


def test_a_failed_build_shows_spec_source_and_log(cp, tmp_path, monkeypatch):
    monkeypatch.setenv("ROCKE_CUPY_CACHE_DIR", str(tmp_path))
    source = build.KernelSource("broken", BROKEN, ("-DROCKE_TEST=1",))
    with pytest.raises(rocke_cupy.KernelBuildError) as caught:
        build.build(source, 0, spec(head_size=64))
    message = str(caught.value)
    assert "could not compile broken for gfx950" in message
    assert "AttentionDenseSpec(batch=2" in message
    assert "-DROCKE_TEST=1 --offload-arch=gfx950" in message
    assert "use of undeclared identifier 'undeclared'" in message
    (path,) = re.findall(r"Source: (.*)", message)
    assert Path(path).read_text() == BROKEN
    assert tmp_path in Path(path).parents


def test_a_failed_build_is_tried_again(cp, monkeypatch):
    source = build.KernelSource("broken", BROKEN, ())
    for _ in range(2):
        with pytest.raises(rocke_cupy.KernelBuildError):
            build.build(source, 0, "a test")


def test_a_source_that_cannot_be_saved_does_not_hide_the_log(cp, tmp_path, monkeypatch):
    file = tmp_path / "no-folder"
    file.write_text("")
    monkeypatch.setenv("ROCKE_CUPY_CACHE_DIR", str(file))
    source = build.KernelSource("broken", BROKEN, ())
    with pytest.raises(rocke_cupy.KernelBuildError, match="Source: not saved") as caught:
        build.build(source, 0, "a test")
    assert "undeclared identifier" in str(caught.value)


def test_a_kernel_is_built_once_for_each_device(cp):
    source = rocke_cupy.build_attention_dense(spec())
    assert build.build(source, 0, spec()) is build.build(source, 0, spec())


def test_another_gpu_is_refused_by_name(cp, monkeypatch):
    monkeypatch.setattr(build, "_built", {})
    monkeypatch.setattr(calls, "kept", calls._Kept())
    monkeypatch.setattr(build, "device_arch", lambda device_id: "gfx942")
    q = cp.asarray(np.zeros((1, 4, 1, 64), np.float16))
    with pytest.raises(NotImplementedError, match="gfx950 only, this is gfx942"):
        rocke_cupy.attention(q, q, q)


def test_without_hipcc_it_says_what_to_install(cp):
    code = (
        "import os, cupy, numpy as np, rocke_cupy\n"
        "os.environ['PATH'] = '/nowhere'\n"
        "q = cupy.asarray(np.zeros((1, 4, 1, 64), np.float16))\n"
        "try: rocke_cupy.attention(q, q, q)\n"
        "except rocke_cupy.KernelBuildError as error: print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, timeout=300
    )
    assert "there is no hipcc on PATH" in run.stdout, run.stderr
    assert "Install ROCm 7" in run.stdout

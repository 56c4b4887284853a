"""Names of GPU archs, and what the package says about others."""

import pytest

from rocke_cupy import arch
from rocke_cupy.kernels import build


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        (b"gfx950:sramecc+:xnack-", "gfx950"),
        ("gfx950", "gfx950"),
        (b"gfx90a:sramecc+:xnack-", "gfx90a"),
        (b"gfx1100", "gfx1100"),
    ],
)
def test_arch_is_what_stands_before_the_features(name, plain):
    assert arch.arch_of(name) == plain


@pytest.mark.parametrize("name", [b"", b"sm_90", b":sramecc+", b"gfx", b"gfx9999999", b"gfx950 -x"])
def test_a_malformed_arch_never_reaches_hiprtc(name):
    with pytest.raises(ValueError, match="does not start with an arch such as gfx950"):
        arch.arch_of(name)


def test_another_arch_is_named():
    with pytest.raises(NotImplementedError, match="kernels for gfx950 only, this is gfx942"):
        arch.require_supported("gfx942", "rocke_cupy")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (FileNotFoundError(2, "No such file or directory: 'hipcc'"), "there is no hipcc on PATH"),
        (RuntimeError("Failed to auto-detect ROCm root directory"), "ROCm's run-time compiler"),
        (ImportError("libhiprtc.so.7: cannot open shared object file"), "ROCm's run-time compiler"),
    ],
)
def test_a_missing_compiler_is_explained(error, words, monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    explained = build._explained(error)
    assert isinstance(explained, build.KernelBuildError)
    assert words in str(explained)
    assert "Install ROCm 7" in str(explained)


def test_other_errors_are_not_explained_away():
    error = RuntimeError("something else")
    assert build._explained(error) is error

"""Compiling with the real hipRTC, in a process of its own."""

import errno

import pytest

from rocke_cupy import cache
from rocke_cupy.emulator import hiprtc
from rocke_cupy.emulator.rocm.tools import VERSIONS, RocmTools, rocm_tools
from rocke_cupy.emulator.rocm.wheel import ToolsError

SOURCE = 'extern "C" __global__ void fill(float* p) { p[threadIdx.x] = 1; }'
FLUSH = "-fcuda-flush-denormals-to-zero"


@pytest.fixture(params=VERSIONS)
def rocm(request):
    """A ROCm version, its compiler fetched into the shared cache."""
    try:
        rocm_tools(request.param)
    except ToolsError as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Entries of compiled sources in a folder of this test, compilers from the shared cache."""
    shared = cache.cache_dir()
    own = tmp_path / "cache"
    own.mkdir()
    (own / "rocm").symlink_to(shared / "rocm")
    monkeypatch.setenv(cache.VARIABLE, str(own))
    return own


def test_gives_a_whole_gfx950_code_object(rocm, fresh):
    code = hiprtc.compile(SOURCE, rocm=rocm).code
    assert code[:4] == b"\x7fELF"
    assert code[48] == 0x4F  # e_flags: gfx950 in LLVM's table
    assert code.endswith(b"\0")  # the byte that CuPy drops


def test_options_are_those_that_cupy_gives():
    assert hiprtc._as_cupy_does(("-O2",)) == (
        "-O2", "--std=c++17", "--offload-arch=gfx950", FLUSH,
    )  # fmt: skip
    given = ("-std=c++20", "--offload-arch=gfx950:sramecc+:xnack-")
    assert hiprtc._as_cupy_does(given) == (*given, FLUSH)
    assert hiprtc._as_cupy_does(["--gpu-architecture=gfx942"])[0] == "--gpu-architecture=gfx942"


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ("-O2", TypeError, "options='-O2' must be a sequence"),
        (("-fgpu-rdc",), ValueError, "options has '-fgpu-rdc'"),
        (("--offload-arch=gfx950", "--offload-arch=gfx942"), ValueError, "one architecture"),
        (("--offload-arch=mi355",), ValueError, "'--offload-arch=mi355'.*does not name"),
    ],
)
def test_wrong_options_are_refused_before_the_compiler_sees_them(options, error, text):
    with pytest.raises(error, match=text):
        hiprtc.compile(SOURCE, options)


def test_denormals_are_flushed_last_so_that_no_option_undoes_it(rocm, fresh):
    kept = hiprtc.compile(SOURCE, ["-fno-cuda-flush-denormals-to-zero"], rocm=rocm).code
    assert kept == hiprtc.compile(SOURCE, rocm=rocm).code


def test_the_second_time_comes_from_the_cache(rocm, fresh, monkeypatch):
    first = hiprtc.compile(SOURCE, rocm=rocm)
    (entry,) = (fresh / "hiprtc").iterdir()
    assert (entry / "source.hip").read_text() == SOURCE
    monkeypatch.setattr(hiprtc, "_compile", lambda *_: pytest.fail("compiled again"))
    assert hiprtc.compile(SOURCE, rocm=rocm) == first


def test_source_options_name_and_version_are_in_the_key(fresh, monkeypatch):
    def compile_nothing(source, options, name, tools, folder):
        for file in ("code", "log"):
            (folder / file).write_text("x")

    def tools(version):
        return RocmTools(version, fresh / f"rocm-{version}", fresh, fresh)

    monkeypatch.setattr(hiprtc, "_compile", compile_nothing)
    monkeypatch.setattr(hiprtc, "rocm_tools", tools)
    for source, options, name, rocm in (
        ("a", (), "k.hip", "7.0"),
        ("b", (), "k.hip", "7.0"),
        ("a", ("-O1",), "k.hip", "7.0"),
        ("a", (), "l.hip", "7.0"),
        ("a", (), "k.hip", "7.14"),
        ("a", (), "k.hip", "7.0"),
    ):
        hiprtc.compile(source, options, name=name, rocm=rocm)
    assert len(list((fresh / "hiprtc").iterdir())) == 5


def test_warnings_and_remarks_are_in_the_log(rocm, fresh):
    remark = ["-Rpass-analysis=kernel-resource-usage"]
    assert "VGPRs" in hiprtc.compile(SOURCE, remark, rocm=rocm, name="mine.hip").log


def test_an_error_has_the_compilers_words_and_the_name(rocm, fresh):
    with pytest.raises(hiprtc.CompileError, match=rf"ROCm {rocm} refused.*") as caught:
        hiprtc.compile('extern "C" __global__ void k() { nothing; }', rocm=rocm, name="mine.hip")
    assert "mine.hip:1:34: error: use of undeclared identifier 'nothing'" in caught.value.log
    assert caught.value.options[-1] == FLUSH
    assert list((fresh / "hiprtc").iterdir()) == []


def test_a_compiler_that_ends_its_process_is_an_error_here(rocm, fresh):
    with pytest.raises(hiprtc.CompileError, match="Unknown command line argument '-nonsense=1'"):
        hiprtc.compile(SOURCE, ["-mllvm", "-nonsense=1"], rocm=rocm)


def test_an_unknown_architecture_is_an_error_here(rocm, fresh):
    with pytest.raises(hiprtc.CompileError, match="gfx999"):  # ROCm 7.0 crashes on it
        hiprtc.compile(SOURCE, ["--offload-arch=gfx9999"], rocm=rocm)


def test_a_full_disk_is_a_sentence(rocm, fresh, monkeypatch):
    def full(*_, **__):
        class Done:
            returncode, stderr = 1, f"OSError: [Errno {errno.ENOSPC}] No space left on device"

        return Done

    monkeypatch.setattr(hiprtc.subprocess, "run", full)
    with pytest.raises(cache.CacheError, match="no space left"):
        hiprtc.compile(SOURCE, rocm=rocm)

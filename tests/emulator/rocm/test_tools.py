"""Fetching the compiler libraries, from an index that misbehaves and (marked) from the real one."""

import hashlib
import http.server
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile

import pytest

from rocke_cupy.cache import VARIABLE
from rocke_cupy.emulator import hiprtc
from rocke_cupy.emulator.rocm import tools, wheel

FILE = "vapoursynth_dfttest2_hiprtc-10-py3-none-manylinux_2_28_x86_64.whl"
FETCH = "from rocke_cupy.emulator.rocm import tools as r; print(r.rocm_tools('7.0').folder)"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache folder, and a pip without its user's settings."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path / "cache"


def make_wheel(path, libraries=("libhiprtc-1.so.7.0", "libamd_comgr-1.so.3.0", "libz-1.so.1")):
    with zipfile.ZipFile(path, "w") as archive:
        for name in libraries:
            archive.writestr(f"vapoursynth_dfttest2_hiprtc.libs/{name}", name)
        archive.writestr("vapoursynth/plugins/filter.so", "not wanted")
        info = "vapoursynth_dfttest2_hiprtc-10.dist-info"
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: vapoursynth-dfttest2-hiprtc\nVersion: 10\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index on this machine; `content` is the wheel, `stall` stops it half-way."""

    class Index(http.server.BaseHTTPRequestHandler):
        content = b""
        stall = False
        reached = threading.Event()
        release = threading.Event()

        def do_GET(self):
            self.send_response(200)
            if not self.path.endswith(".whl"):
                page = f'<a href="/files/{FILE}">{FILE}</a>'.encode()
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)
                return
            self.send_header("Content-Length", str(len(self.content)))
            self.end_headers()
            half = len(self.content) // 2
            self.wfile.write(self.content[:half])
            self.wfile.flush()
            if self.stall:
                Index.reached.set()
                Index.release.wait(60)
                return
            self.wfile.write(self.content[half:])

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    yield Index
    Index.release.set()
    server.shutdown()
    server.server_close()


def expect_wheel(monkeypatch, content):
    expected = wheel.Wheel("10", hashlib.sha256(content).hexdigest(), 0)
    monkeypatch.setitem(tools._WHEELS, "7.0", expected)


def left_over(cache):
    return [p for p in cache.rglob("*") if p.name != "rocm" and not p.name.endswith(".lock")]


def test_the_version_comes_from_the_argument_the_variable_or_the_default(monkeypatch):
    monkeypatch.delenv(tools.VERSION_VARIABLE, raising=False)
    assert tools.chosen_version() == "7.0"
    monkeypatch.setenv(tools.VERSION_VARIABLE, "7.14")
    assert tools.chosen_version() == "7.14"
    assert tools.chosen_version("7.0") == "7.0"


def test_an_unknown_version_is_named_with_where_it_came_from(monkeypatch):
    with pytest.raises(ValueError, match=r"version='6\.4' must be one of 7\.0, 7\.14"):
        tools.chosen_version("6.4")
    monkeypatch.setenv(tools.VERSION_VARIABLE, "8")
    with pytest.raises(ValueError, match=r"ROCKE_EMULATOR_ROCM='8'"):
        tools.chosen_version()


def test_unpacks_the_libraries_under_the_names_they_are_opened_by(
    cache, index, monkeypatch, tmp_path
):
    index.content = make_wheel(tmp_path / FILE).read_bytes()
    expect_wheel(monkeypatch, index.content)
    found = tools.rocm_tools("7.0")
    assert found.hiprtc.read_text() == "libhiprtc-1.so.7.0"
    assert found.comgr.read_text() == "libamd_comgr-1.so.3.0"
    assert sorted(path.name for path in found.folder.iterdir()) == [
        "libamd_comgr-1.so.3.0",
        "libamd_comgr.so.3",
        "libhiprtc-1.so.7.0",
        "libhiprtc.so.7",
        "libz-1.so.1",
    ]


def test_the_second_time_needs_no_network(cache, index, monkeypatch, tmp_path):
    index.content = make_wheel(tmp_path / FILE).read_bytes()
    expect_wheel(monkeypatch, index.content)
    first = tools.rocm_tools("7.0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert tools.rocm_tools("7.0") == first


def test_no_network_is_a_sentence_and_leaves_nothing(cache, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(wheel.ToolsError, match=r"ROCm 7\.0.*index was not reached"):
        tools.rocm_tools("7.0")
    assert left_over(cache) == []


def test_another_file_than_expected_is_refused(cache, index, monkeypatch, tmp_path):
    index.content = make_wheel(tmp_path / FILE).read_bytes()
    with pytest.raises(wheel.ToolsError, match="digest differs"):
        tools.rocm_tools("7.0")
    assert left_over(cache) == []


def test_a_wheel_without_the_libraries_is_refused(cache, index, monkeypatch, tmp_path):
    index.content = make_wheel(tmp_path / FILE, ["libz-1.so.1"]).read_bytes()
    expect_wheel(monkeypatch, index.content)
    with pytest.raises(wheel.ToolsError, match=r"has 0 files libhiprtc-\*\.so\.7"):
        tools.rocm_tools("7.0")
    assert left_over(cache) == []


def test_a_damaged_wheel_is_refused(cache, monkeypatch):
    def download(version, expected, folder):
        content = bytearray(make_wheel(folder / FILE).read_bytes())
        content[content.index(b"libhiprtc-1.so.7.0", 100)] ^= 1
        (folder / FILE).write_bytes(content)

    monkeypatch.setattr(wheel, "_download", download)
    with pytest.raises(wheel.ToolsError, match="damaged"):
        tools.rocm_tools("7.0")
    assert left_over(cache) == []


def test_a_full_disk_while_pip_downloads_is_a_sentence(cache):
    text = wheel._why_pip_failed(
        "7.0", tools._WHEELS["7.0"], "ERROR: [Errno 28] No space left on device"
    )
    assert "no space left" in text
    assert str(cache) in text
    assert VARIABLE in text


def test_ctrl_c_during_the_download_ends_it_and_the_next_run_recovers(
    cache, index, monkeypatch, tmp_path
):
    index.content = make_wheel(tmp_path / FILE).read_bytes() + bytes(1000000)
    index.stall = True
    command = [sys.executable, "-c", FETCH]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert index.reached.wait(60)
    started = time.monotonic()
    os.killpg(run.pid, signal.SIGINT)
    _, errors = run.communicate(timeout=30)
    assert time.monotonic() - started < 5
    assert run.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert left_over(cache) == []
    index.stall = False
    index.content = make_wheel(tmp_path / FILE).read_bytes()
    expect_wheel(monkeypatch, index.content)
    assert tools.rocm_tools("7.0").hiprtc.exists()


def test_two_first_uses_at_once_fetch_once(cache, monkeypatch, capsys):
    fetched = []

    def download(version, expected, folder):
        fetched.append(version)
        time.sleep(0.3)
        make_wheel(folder / FILE)

    monkeypatch.setattr(wheel, "_download", download)
    threads = [threading.Thread(target=tools.rocm_tools, args=("7.0",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == ["7.0"]
    assert "waiting for another process" in capsys.readouterr().err


def test_an_interpreter_without_pip_is_a_sentence(cache, monkeypatch):
    monkeypatch.setattr(wheel.sys, "executable", shutil.which("false"))
    with pytest.raises(wheel.ToolsError, match=r"has no pip.*ensurepip"):
        tools.rocm_tools("7.0")


def test_progress_goes_by_quarters_when_it_is_not_a_terminal(capsys):
    total = 80_000_000
    wheel._follow([f"Progress {n * total // 100} of {total}" for n in range(101)])
    assert capsys.readouterr().err.split("\n") == [
        f"rocke_cupy: {n} % of 80 MB" for n in (25, 50, 75, 100)
    ] + [""]


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.parametrize("version", tools.VERSIONS)
def test_the_real_wheel_compiles(tmp_path, monkeypatch, version):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    source = 'extern "C" __global__ void k(int* p) { *p = 1; }'
    assert hiprtc.compile(source, rocm=version).code.startswith(b"\x7fELF")

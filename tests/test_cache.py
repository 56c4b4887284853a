"""The cache folder: complete entries or none."""

import errno
import os
import subprocess
import sys
import threading
import time

import pytest

from rocke_cupy import cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def left_over(folder):
    return [path.name for path in folder.rglob("*") if not path.name.endswith(".lock")]


def test_the_variable_comes_before_xdg_and_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    assert cache.cache_dir() == tmp_path / "home" / ".cache" / "rocke_cupy"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir() == tmp_path / "xdg" / "rocke_cupy"
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "own"))
    assert cache.cache_dir() == tmp_path / "own"
    assert (tmp_path / "own").is_dir()


def test_a_folder_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(cache.CacheError, match=rf"file/cache.*{cache.VARIABLE}"):
        cache.cache_dir()


def test_publishes_files_and_folders(folder):
    file = cache.publish(folder / "a" / "file", lambda path: path.write_text("text"))
    assert file.read_text() == "text"

    def build(path):
        path.mkdir()
        (path / "inside").write_text("text")

    made = cache.publish(folder / "a" / "made", build)
    assert (made / "inside").read_text() == "text"
    assert sorted(left_over(folder)) == ["a", "file", "inside", "made"]


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt()])
def test_an_interrupted_build_leaves_nothing(folder, error):
    def build(path):
        path.mkdir()
        (path / "half").write_text("ha")
        raise error

    with pytest.raises(type(error)):
        cache.publish(folder / "entry", build)
    assert left_over(folder) == []


def test_a_lost_race_keeps_the_winner(folder):
    def build(path):
        path.mkdir()
        (path / "mine").write_text("")
        (folder / "entry").mkdir()
        (folder / "entry" / "theirs").write_text("")

    cache.publish(folder / "entry", build)
    assert sorted(left_over(folder)) == ["entry", "theirs"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_a_sentence(folder, number):
    def build(path):
        raise OSError(number, os.strerror(number), str(path))

    with pytest.raises(cache.CacheError, match=rf"no space left.*{folder}.*{cache.VARIABLE}"):
        cache.publish(folder / "entry", build)
    assert left_over(folder) == []


def test_an_error_that_is_not_the_disks_stays_as_it_is(folder):
    def build(path):
        raise FileNotFoundError(errno.ENOENT, "no such file", "source.c")

    with pytest.raises(FileNotFoundError, match=r"source\.c"):
        cache.publish(folder / "entry", build)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system, which needs root")
def test_a_really_full_disk_is_a_sentence_and_the_next_run_recovers(tmp_path, monkeypatch):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    monkeypatch.setenv(cache.VARIABLE, str(small))
    try:
        with pytest.raises(cache.CacheError, match="no space left"):
            cache.publish(cache.cache_dir() / "big", lambda path: path.write_bytes(bytes(100000)))
        assert left_over(small) == []
        cache.publish(cache.cache_dir() / "big", lambda path: path.write_bytes(bytes(1000)))
        assert left_over(small) == ["big"]
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_what_a_killed_process_left_is_removed_when_it_is_old(folder):
    folder.mkdir()
    old, fresh = folder / ".entry.unfinished-old", folder / ".entry.unfinished-fresh"
    for path in (old, fresh):
        path.mkdir()
        (path / "half").write_text("ha")
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    cache.publish(folder / "entry", lambda path: path.write_text(""))
    assert not old.exists()
    assert fresh.exists()


def test_a_lock_makes_others_wait(folder):
    order = []

    def second():
        with cache.lock(folder / "entry", lambda: order.append("waits")):
            order.append("second")

    with cache.lock(folder / "entry", lambda: order.append("first waits")):
        thread = threading.Thread(target=second)
        thread.start()
        while "waits" not in order:
            time.sleep(0.01)
        order.append("first done")
    thread.join()
    assert order == ["waits", "first done", "second"]


def test_a_killed_holder_frees_the_lock(folder):
    code = (
        "import os, sys; from pathlib import Path; from rocke_cupy import cache\n"
        "with cache.lock(Path(sys.argv[1])): os._exit(9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(folder / "entry")])
    assert killed.returncode == 9
    with cache.lock(folder / "entry", lambda: pytest.fail("the lock is still held")):
        pass

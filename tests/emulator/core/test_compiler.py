"""Building C on first use: the compiler's choice, the cache, and failures in a sentence."""

import ctypes
import sys

import pytest

from rocke_cupy.emulator.core import compiler


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("ROCKE_CUPY_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "answer.c"
    path.write_text('#include "answer.h"\nint answer(void) { return ANSWER; }\n')
    (tmp_path / "answer.h").write_text("#define ANSWER 42\n")
    return path


def build(source):
    return compiler.build_library("answer", [source], depends=[source.with_name("answer.h")])


def test_a_library_is_built_and_found_again(source):
    library = build(source)
    assert ctypes.CDLL(str(library)).answer() == 42
    before = library.stat().st_mtime_ns
    assert build(source) == library
    assert library.stat().st_mtime_ns == before
    assert [path.name for path in library.parent.iterdir()] == ["answer.so"]


def test_a_changed_header_gives_another_library(source):
    first = build(source)
    source.with_name("answer.h").write_text("#define ANSWER 43\n")
    second = build(source)
    assert first != second
    assert ctypes.CDLL(str(second)).answer() == 43


def test_other_flags_give_another_library(source):
    flagged = compiler.build_library("answer", [source], flags=["-O1"])
    assert flagged != compiler.build_library("answer", [source], flags=["-O2"])


def test_an_error_shows_the_command_and_the_message(source):
    source.write_text("int answer(void) { return; \n")
    with pytest.raises(compiler.CompilerError, match=r"(?s)answer\.c.*error"):
        build(source)
    assert not list(source.parent.glob("cache/native/answer*"))


def test_no_compiler_is_a_sentence(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    monkeypatch.setattr(compiler.util, "find_spec", lambda name: None)
    with pytest.raises(compiler.CompilerError, match="pip install ziglang"):
        compiler.compiler()


def test_zig_is_taken_when_there_is_no_other(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(compiler.shutil, "which", lambda name: None)
    monkeypatch.setattr(compiler.util, "find_spec", lambda name: object())
    assert compiler.compiler() == (sys.executable, "-m", "ziglang", "cc")


def test_the_variable_comes_first(monkeypatch, source):
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    assert compiler.compiler() == ("no-such-compiler", "-m64")
    with pytest.raises(compiler.CompilerError, match="cannot run the C compiler no-such-compiler"):
        build(source)

"""``python -m rocke_cupy.emulator.lint``, and what a finding says."""

import json

import pytest

from rocke_cupy.emulator import hiprtc
from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.lint import RULES, check
from rocke_cupy.emulator.lint.__main__ import main

BROKEN = "v_mov_b32_e32 v0, v1\nv_readfirstlane_b32 s4, v0\ns_endpgm"


@pytest.fixture
def files(tmp_path):
    for name, body in (("good", "s_endpgm"), ("broken", BROKEN)):
        (tmp_path / name).write_bytes(assemble_kernel("k", body))
    (tmp_path / "text").write_text("no code object")
    return tmp_path


def test_a_finding_has_place_instruction_rule_and_count(files, capsys):
    assert main([str(files / "good"), str(files / "broken")]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        f"{files}/good: 0 findings",
        f"{files}/broken: 1 findings",
        "k+0x4: v_readfirstlane_b32 s4, v0",
        f"    R04: {RULES['R04'].text}; v0: 0 of 1 wait states behind k+0x0: v_mov_b32_e32 v0, v1",
    ]


def test_json(files, capsys):
    assert main(["--json", str(files / "broken")]) == 1
    (found,) = json.loads(capsys.readouterr().out)[str(files / "broken")]
    assert (found["rule"], found["states"], found["needed"]) == ("R04", 0, 1)


def test_exit_codes(files, capsys):
    assert main([str(files / "good")]) == 0
    assert main([str(files / "text")]) == 2
    assert "not an ELF code object" in capsys.readouterr().err
    assert main([str(files / "none")]) == 2


def test_source_lines():
    source = """extern "C" __global__ void k(int* out) {
      int low;
      asm volatile("v_mov_b32 v7, 0\\n\\tv_readfirstlane_b32 %0, v7" : "=s"(low) : : "v7");
      *out = low;
    }"""
    code = hiprtc.compile(source, ["-gline-tables-only"], name="own.hip").code
    (found,) = [f for f in check(code) if f.rule == "R04"]
    assert found.source == "own.hip:3"
    assert "(own.hip:3)" in str(found)

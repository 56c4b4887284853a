"""Each rule at its exact count: one wait state too few is found, exactly enough is not."""

import re
from pathlib import Path

import pytest
from helpers.hazard_cases import CASES, HARMLESS, READ, XDL_4, XDL_16, nops

from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.lint import RULES, check


def straight(first, second, states):
    return f"{first}\n{nops(states)}{second}\n"


def joined(first, second, states):
    """One way comes past the first instruction, another without it."""
    return f"s_cbranch_scc0 .Lpast\n{first}\n{nops(states)}.Lpast:\n{second}\n"


def two_ways(first, second, states):
    """The way that falls through, which LLVM looks at first, is the longer one."""
    return f"{first}\ns_cbranch_scc0 .Lover\n{nops(32)}.Lover:\n{nops(states - 1)}{second}\n"


def looping(first, second, states):
    """The second instruction stands before the first one, in a loop."""
    body = f"{second}\n{nops(20)}{first}\n{nops(states - 1)}"
    return f".Lagain:\n{body}s_cbranch_scc1 .Lagain\n"


def nested(first, second, states):
    """From the end of the inner loop over its start and out of it."""
    return (
        f".Louter:\n{nops(20)}.Linner:\ns_cbranch_scc0 .Lleave\n{nops(20)}{first}\n"
        f"{nops(states - 3)}s_branch .Linner\n.Lleave:\ns_nop 0\n{second}\n"
        "s_cbranch_scc1 .Louter\n"
    )


FORMS = {straight: 0, joined: 0, two_ways: 1, looping: 1, nested: 3}
"""With the fewest wait states that each can have."""


def findings(body):
    return check(assemble_kernel("k", body, vgprs=128, accum_offset=64))


def in_all_forms(first, second, states, forms):
    """All of them one after the other; none is in the way of another."""
    parts = [form(first, second, max(states, FORMS[form])) for form in forms]
    return nops(40).join(parts) + "s_endpgm"


def forms_for(second):
    return [straight] if second.startswith("s_rfe") else list(FORMS)  # nothing follows s_rfe


@pytest.mark.parametrize(("rule", "first", "second", "states"), CASES)
def test_a_rule_at_its_exact_count(rule, first, second, states):
    forms = forms_for(second)
    assert findings(in_all_forms(first, second, states, forms)) == []
    can_be_short = [form for form in forms if FORMS[form] < states]
    found = findings(in_all_forms(first, second, states - 1, can_be_short))
    assert [(f.rule, f.states, f.needed) for f in found] == (
        [(rule, states - 1, states)] * len(can_be_short)
    )
    for finding in found:
        assert finding.place.startswith("k+0x")
        assert second.split()[0] in finding.instruction
        assert f"{states - 1} of {states} wait states" in finding.message
        assert first.split()[0] in finding.message


@pytest.mark.parametrize(("first", "second"), HARMLESS)
def test_what_needs_no_states(first, second):
    assert findings(in_all_forms(first, second, 0, forms_for(second))) == []


def test_every_instruction_between_is_one_state():
    between = "s_waitcnt vmcnt(0)\nv_mov_b32_e32 v9, v8\ns_mov_b32 s9, s8\n" + XDL_4.replace(
        "v[0:3]", "v[48:51]"
    )
    body = "v_readfirstlane_b32 s4, v0\n{}\nglobal_load_dword v1, v2, s[4:5]\ns_endpgm"
    assert [f.states for f in findings(body.format(between))] == [4]
    assert findings(body.format(between + "\ns_nop 0")) == []


def test_the_nearest_of_two_matrix_instructions_counts():
    short = XDL_4.replace("v[32:35], v[36:39]", "v[40:43], v[44:47]")
    assert [f.rule for f in findings(f"{XDL_4}\n{nops(7)}{READ}\ns_endpgm")] == ["R14"]
    found = findings(f"{XDL_4}\n{nops(5)}{short}\n{nops(6)}{READ}\ns_endpgm")
    assert [(f.rule, f.states) for f in found] == [("R14", 6)]


def test_the_longest_gap_that_is_needed_is_seen_through_many_blocks():
    ways = "".join(f"s_cbranch_scc0 .L{k}\ns_nop 0\n.L{k}:\n" for k in range(19))
    assert [f.states for f in findings(f"{XDL_16}\n{ways}{READ}\ns_endpgm")] == [19]


class TestHalvesOfVcc:
    BRANCH = "s_cbranch_vccz .Lover\ns_nop 0\n.Lover:\ns_endpgm"

    @pytest.mark.parametrize("write", ["s_mov_b32 vcc_lo, 0", "v_readfirstlane_b32 vcc_hi, v0"])
    def test_a_branch_behind_a_write_of_one_half(self, write):
        found = findings(f"{write}\n{nops(64)}{self.BRANCH}")
        assert [f.rule for f in found] == ["R26"]
        assert write in found[0].message

    @pytest.mark.parametrize("write", ["s_mov_b64 vcc, vcc", "v_cmp_eq_u32_e32 vcc, v0, v1"])
    def test_a_whole_write_makes_it_good(self, write):
        assert findings(f"s_mov_b32 vcc_lo, 0\n{write}\ns_nop 4\n{self.BRANCH}") == []

    def test_on_one_of_two_ways(self):
        body = f"s_cbranch_scc0 .Ljoin\ns_mov_b32 vcc_lo, 0\n.Ljoin:\n{nops(64)}{self.BRANCH}"
        assert [f.rule for f in findings(body)] == ["R26"]


class TestPage:
    """docs/errata.md explains every rule, with the numbers that are pinned here."""

    OF_OTHER_TESTS = ("R26", "R27", "R28", "R29", "R30", "R31", *(f"K0{k}" for k in range(1, 7)))

    def rows(self):
        """Cells of the page's tables, by the rule that a row begins with."""
        page = Path(__file__).parents[3] / "docs/errata.md"
        lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        return {row[0]: row[1:] for row in cells if row[0] in RULES}

    def test_each_rule_has_a_row_and_a_test(self):
        assert self.rows().keys() == RULES.keys()
        assert {*(case[0] for case in CASES), *self.OF_OTHER_TESTS} == RULES.keys()

    @pytest.mark.parametrize("rule", dict.fromkeys(case[0] for case in CASES))
    def test_numbers(self, rule):
        pinned = {states for name, _, _, states in CASES if name == rule}
        stated = set(map(int, re.findall(r"\d+", self.rows()[rule][2])))
        assert stated == pinned or rule in ("R12", "R13", "R14", "R15", "R16")  # a table of N

"""Hazards seen while code is executed: each rule at its exact count, along the path taken."""

import re

import numpy as np
import pytest
from helpers.hazard_cases import CASES, DPP, HARMLESS, READ, XDL_4, XDL_8, nops

from rocke_cupy.emulator import EmulationError, run
from rocke_cupy.emulator.assemble import assemble, assemble_kernel
from rocke_cupy.emulator.lint import RULES
from rocke_cupy.emulator.program.decode import decode
from rocke_cupy.emulator.program.disassemble import disassemble
from rocke_cupy.emulator.program.operands import UnknownInstruction

# What a case reads is there; addresses, and the resource in s[4:7], are those of the array.
_POINTERS = "v_mov_b32_e32 v{0}, s4\nv_mov_b32_e32 v{1}, s5\n"
START = (
    "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_mov_b64 vcc, 0\ns_mov_b32 m0, 0\ns_mov_b32 s20, 0\n"
    "s_mov_b32 s6, 4096\ns_mov_b32 s7, 0x20000\ns_mov_b32 s8, 0\ns_waitcnt lgkmcnt(0)\n"
    + "".join(f"v_mov_b32_e32 v{k}, 0\nv_accvgpr_write_b32 a{k}, 0\n" for k in range(64))
    + "".join(_POINTERS.format(k, k + 1) for k in (2, 4, 62))
    + "v_mov_b32_e32 v0, s4\n"
)
AT_REST = "s_waitcnt vmcnt(0) lgkmcnt(0)\n" + nops(20)


def launch(body, **options):
    code = assemble_kernel("k", body, vgprs=128, accum_offset=64, lds_size=1024)
    waves = options.pop("waves", 1)
    array = np.zeros(4096, np.uint8)
    return run(code, "k", options.pop("grid", (1,)), (64 * waves,), [array], **options)


def fault(body, **options):
    """Return the fault of a kernel that starts with the registers of the cases, or None."""
    try:
        launch(f"{START}{AT_REST}{body}", **options)
    except EmulationError as error:
        return error
    return None


def hazard(body, **options):
    """Return the rule that execution breaks. Another fault, of what cases do to memory, is none."""
    error = fault(body, **options)
    return error.rule if error else ""


def between(states):
    """Instructions that wait for a load too, if there is room for that."""
    return f"s_waitcnt vmcnt(0) lgkmcnt(0)\n{nops(states - 1)}" if states else ""


def straight(first, second, states):
    return f"{first}\n{between(states)}{second}\ns_endpgm"


def branching(first, second, states):
    """The path jumps over wait states, which do not count."""
    return f"{first}\ns_branch .Lover\n{nops(32)}.Lover:\n{between(states - 1)}{second}\ns_endpgm"


def looping(first, second, states):
    """The second instruction stands before the first one, and follows it in the second turn."""
    return (
        f".Lagain:\n{second}\n{AT_REST}s_cmp_eq_u32 s20, 1\ns_cbranch_scc1 .Lend\n"
        f"s_mov_b32 s20, 1\n{nops(20)}{first}\n{between(states - 1)}s_branch .Lagain\n"
        ".Lend:\ns_endpgm"
    )


def is_executed(text):
    """Whether the emulator knows an instruction."""
    try:
        decode(disassemble(assemble(text))[0])
    except UnknownInstruction:
        return False
    return "TRAPSTS" not in text and "sendmsg" not in text


EXECUTED = [case for case in CASES if is_executed(case[1])]


def test_nearly_every_rule_can_be_executed():
    """Of R18 and R24 none can: the emulator has no fp64 4x4x4, no TRAPSTS and no s_rfe."""
    assert {case[0] for case in CASES} - {case[0] for case in EXECUTED} <= {"R18", "R24"}


@pytest.mark.parametrize("form", [straight, branching, looping])
@pytest.mark.parametrize(("rule", "first", "second", "states"), EXECUTED)
def test_a_rule_at_its_exact_count(rule, first, second, states, form):
    if form is looping and not is_executed(second):
        return  # it would end in the first turn
    least = (form is not straight) + first.startswith("ds_read")  # a branch, a wait for the load
    assert hazard(form(first, second, max(states, least))) == ""
    if states - 1 < least:
        return
    error = fault(form(first, second, states - 1))
    assert (error.kind, error.rule) == ("hazard", rule)
    assert f"{states - 1} of {states} wait states" in str(error)
    assert RULES[rule].source in str(error)
    assert second.split()[0] in str(error).splitlines()[2]
    assert re.search(f"behind k\\+0x[0-9a-f]+: {first.split()[0]}", str(error))


@pytest.mark.parametrize(("first", "second"), HARMLESS)
def test_what_needs_no_states(first, second):
    assert hazard(straight(first, second, 0)) == ""


def test_what_is_reported():
    with pytest.raises(EmulationError) as caught:
        launch("v_mov_b32_e32 v1, v0\nv_readfirstlane_b32 s4, v1\ns_endpgm")
    assert str(caught.value).splitlines() == [
        f"hazard R04: {RULES['R04'].text}; v1: 0 of 1 wait states [{RULES['R04'].source}]",
        "  in kernel k, workgroup 0, wave 0",
        "  at k+0x4: v_readfirstlane_b32 s4, v1",
        "  behind k+0x0: v_mov_b32_e32 v1, v0",
    ]
    assert (caught.value.instruction, caught.value.other) == (1, 0)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (f"{XDL_8}\n{READ}", "v0"),
        ("v_accvgpr_write_b32 a5, v0\nv_mfma_f32_32x32x16_f16 a[0:15], v[4:7], v[8:11], a[0:15]",
         "a5"),
        ("v_cmp_eq_u32_e32 vcc, v0, v1\nv_cndmask_b32_e32 v2, v0, v1, vcc", "vcc_lo"),
        ("v_cmp_eq_u32_e32 vcc, v0, v1\nv_mov_b32_e32 v2, src_vccz", "vccz"),
        ("s_mov_b32 m0, s4\nglobal_load_lds_dword v[62:63], off", "m0"),
    ],
)  # fmt: skip
def test_the_register_is_named(text, name):
    assert f"; {name}: 0 of " in str(fault(f"{text}\ns_endpgm"))


def test_it_can_be_turned_off():
    body = straight("v_mov_b32_e32 v0, v1", "v_readfirstlane_b32 s4, v0", 0)
    assert hazard(body) == "R04"
    assert fault(body, hazards=False) is None


class TestPaths:
    FIRST, SECOND = "v_mov_b32_e32 v0, v1", "v_readfirstlane_b32 s4, v0"

    def test_only_the_path_taken_counts(self):
        body = f"s_cmp_eq_u32 s20, 0\ns_cbranch_scc1 .Lpast\n{self.FIRST}\n.Lpast:\n{self.SECOND}\n"
        assert hazard(f"{body}s_endpgm") == ""
        assert hazard(f"{body.replace('scc1', 'scc0')}s_endpgm") == "R04"

    def test_into_a_function_and_back(self):
        call = "s_getpc_b64 s[10:11]\ns_add_u32 s10, s10, .Lcalled-.Lhere\ns_addc_u32 s11, s11, 0\n"
        body = call.replace("s_getpc_b64 s[10:11]\n", "s_getpc_b64 s[10:11]\n.Lhere:\n")
        function = f"s_endpgm\n.Lcalled:\n{{}}{self.SECOND}\ns_setpc_b64 s[12:13]"
        jump = f"{self.FIRST}\ns_swappc_b64 s[12:13], s[10:11]\n"
        assert hazard(body + jump + function.format("")) == ""  # the call is a state
        cmpx = "v_cmpx_eq_u32_e32 vcc, v1, v1\ns_swappc_b64 s[12:13], s[10:11]\n"
        assert hazard(body + cmpx + function.format(nops(2))) == "R03"
        assert hazard(body + cmpx + function.format(nops(3))) == ""

    def test_a_later_write_takes_the_place_of_an_earlier_one(self):
        short = XDL_4.replace("v[32:35], v[36:39]", "v[40:43], v[44:47]")
        body = f"{XDL_4}\n{nops(5)}{short}\n{{}}{READ}\ns_endpgm"
        assert "6 of 8" in str(fault(body.format(nops(6))))
        assert hazard(body.format(nops(8))) == ""

    def test_a_wave_knows_nothing_of_another(self):
        start = "v_lshrrev_b32_e32 v0, 6, v0\ns_nop 4\nv_readfirstlane_b32 s9, v0\ns_nop 4\n"
        body = (
            f"s_cmp_eq_u32 s9, 0\ns_cbranch_scc1 .Lz\n{self.SECOND}\ns_endpgm\n.Lz:\n{self.FIRST}"
        )
        for quantum in (1, 2, 3):
            launch(f"{start}{body}\ns_endpgm", waves=2, quantum=quantum)

    def test_a_workgroup_knows_nothing_of_the_one_before(self):
        launch(f"{self.SECOND}\n{self.FIRST}\ns_endpgm", grid=(3,), threads=1)
        launch("s_cbranch_vccz .Lend\n.Lend:\ns_mov_b32 vcc_lo, 0\ns_endpgm", grid=(3,), threads=1)


class TestHalvesOfVcc:
    BRANCH = "s_cbranch_vccz .Lend\n.Lend:\ns_endpgm"

    @pytest.mark.parametrize("write", ["s_mov_b32 vcc_lo, 0", "v_readfirstlane_b32 vcc_hi, v0"])
    def test_a_branch_behind_a_write_of_one_half(self, write):
        error = fault(f"{write}\n{nops(600)}{self.BRANCH}")
        assert error.rule == "R26"
        assert "vccz: is as it was before" in str(error)

    def test_a_whole_write_makes_it_good(self):
        assert fault(f"s_mov_b32 vcc_lo, 0\ns_mov_b64 vcc, vcc\n{self.BRANCH}") is None


class TestTransposedReads:
    READ = "v_mov_b32_e32 v1, 0\nds_read_b64_tr_b16 v[2:3], v1\ns_waitcnt lgkmcnt(0)\ns_endpgm"

    def test_all_lanes(self):
        assert fault(self.READ) is None
        assert fault(f"s_mov_b64 exec, 1\ns_mov_b64 exec, -1\n{self.READ}") is None

    def test_a_lane_off(self):
        error = fault(f"s_bitset0_b32 exec_hi, 31\n{self.READ}")
        assert (error.kind, error.rule) == ("hazard", "R30")
        assert "EXEC is 7fffffffffffffff" in str(error)
        assert RULES["R30"].source in str(error)

    def test_other_lds_reads(self):
        assert fault(f"s_mov_b64 exec, 1\n{self.READ.replace('_tr_b16', '')}") is None


def test_chains_of_one_matrix_instruction_need_no_states():
    """Neither does a dot product that goes on through C, though others wait three states."""
    assert fault(f"{XDL_8}\n{XDL_8}\n{XDL_8}\ns_endpgm") is None
    chain = "v_dot2_f32_f16 v0, v1, v2, v0\n" * 3
    assert fault(f"{chain}s_endpgm") is None
    assert hazard(f"{chain}{nops(2)}v_mov_b32_dpp v2, v0 {DPP}\ns_endpgm") == "R17"

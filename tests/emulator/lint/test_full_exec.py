"""Where EXEC is proved to have all lanes, and where it is not."""

import pytest

from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.lint import check

READ = "ds_read_b64_tr_b16 v[2:3], v0"
COMPARE = "v_cmp_lt_u32_e32 vcc, v0, v1\ns_nop 4"

# As compilers write them; READ stands where EXEC has all lanes again.
PROVED = {
    "the start": READ,
    "branch": f"s_and_saveexec_b64 s[4:5], vcc\nv_mov_b32_e32 v4, 0\n"
    f"s_or_b64 exec, exec, s[4:5]\n{READ}",
    "branch that may be skipped": "s_and_saveexec_b64 s[4:5], vcc\ns_cbranch_execz .Lend\n"
    f"v_mov_b32_e32 v4, 0\n.Lend:\ns_or_b64 exec, exec, s[4:5]\n{READ}",
    "nested branches": "s_and_saveexec_b64 s[4:5], vcc\ns_and_saveexec_b64 s[6:7], s[8:9]\n"
    f"s_or_b64 exec, exec, s[6:7]\ns_or_b64 exec, exec, s[4:5]\n{READ}",
    "outer mask alone": "s_and_saveexec_b64 s[4:5], vcc\ns_and_saveexec_b64 s[6:7], s[8:9]\n"
    f"s_or_b64 exec, exec, s[4:5]\n{READ}",
    "else": "s_and_saveexec_b64 s[4:5], vcc\ns_xor_b64 s[4:5], exec, s[4:5]\n"
    "s_andn2_saveexec_b64 s[4:5], s[4:5]\nv_mov_b32_e32 v4, 0\n"
    f"s_or_b64 exec, exec, s[4:5]\n{READ}",
    "else by exchange": "s_and_saveexec_b64 s[4:5], vcc\ns_xor_b64 s[4:5], exec, s[4:5]\n"
    "s_or_saveexec_b64 s[6:7], s[4:5]\ns_xor_b64 exec, exec, s[6:7]\nv_mov_b32_e32 v4, 0\n"
    f"s_or_b64 exec, exec, s[6:7]\n{READ}",
    "loop of the lanes' own lengths": f"s_mov_b64 s[4:5], 0\n.Lloop:\n{COMPARE}\n"
    "s_or_b64 s[4:5], vcc, s[4:5]\ns_andn2_b64 exec, exec, s[4:5]\ns_cbranch_execnz .Lloop\n"
    f"s_or_b64 exec, exec, s[4:5]\n{READ}",
    "copied": "s_mov_b64 s[4:5], exec\ns_mov_b64 exec, s[6:7]\ns_mov_b64 exec, s[4:5]\n" + READ,
    "all by constant": f"s_mov_b64 exec, s[6:7]\ns_mov_b64 exec, -1\n{READ}",
    "loop by a scalar": f".Lloop:\n{READ}\ns_cbranch_scc1 .Lloop",
}
NOT_PROVED = {
    "in a branch": f"s_and_saveexec_b64 s[4:5], vcc\n{READ}\ns_or_b64 exec, exec, s[4:5]",
    "in a loop of the lanes' own lengths": f"s_mov_b64 s[4:5], 0\n.Lloop:\n{READ}\n{COMPARE}\n"
    "s_or_b64 s[4:5], vcc, s[4:5]\ns_andn2_b64 exec, exec, s[4:5]\ns_cbranch_execnz .Lloop\n"
    "s_or_b64 exec, exec, s[4:5]",
    "another mask restored": "s_and_saveexec_b64 s[4:5], vcc\ns_and_saveexec_b64 s[6:7], s[8:9]\n"
    f"s_or_b64 exec, exec, s[6:7]\n{READ}",
    "mask overwritten": "s_and_saveexec_b64 s[4:5], vcc\ns_mov_b32 s5, 0\n"
    f"s_or_b64 exec, exec, s[4:5]\n{READ}",
    "not restored on one way": "s_cbranch_scc0 .Lend\ns_and_saveexec_b64 s[4:5], vcc\n.Lend:\n"
    + READ,
    "and in place of or": f"s_and_saveexec_b64 s[4:5], vcc\ns_and_b64 exec, exec, s[4:5]\n{READ}",
    "by a compare": f"v_cmpx_lt_u32_e32 vcc, v0, v1\n{READ}",
    # Whoever is called may write any scalar register, a saved mask too.
    "call": "s_and_saveexec_b64 s[4:5], vcc\ns_swappc_b64 s[30:31], s[6:7]\n"
    f"s_or_b64 exec, exec, s[4:5]\n{READ}",
    "one half": f"s_mov_b32 exec_lo, 0\n{READ}",
}


def findings(body):
    return check(assemble_kernel("k", body + "\ns_endpgm"))


@pytest.mark.parametrize("body", PROVED.values(), ids=PROVED)
def test_proved(body):
    assert findings(body) == []


@pytest.mark.parametrize("body", NOT_PROVED.values(), ids=NOT_PROVED)
def test_not_proved(body):
    found = findings(body)
    assert [f.rule for f in found] == ["R30"]
    assert found[0].instruction == READ


def test_other_lds_reads_may_have_any_lanes():
    assert findings("s_and_saveexec_b64 s[4:5], vcc\nds_read_b64 v[2:3], v0") == []

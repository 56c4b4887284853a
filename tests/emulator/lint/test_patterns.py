"""Single instructions that must not be, and runs of memory instructions."""

import pytest

from rocke_cupy.emulator.assemble import assemble, assemble_kernel
from rocke_cupy.emulator.lint import check


def rules(body):
    return [finding.rule for finding in check(assemble_kernel("k", body + "\ns_endpgm"))]


class TestPackedFp32:
    """Which forms fail was measured: zhihuidu-amd/llvm-project, the test of fixPkF32OpSelBug."""

    @pytest.mark.parametrize(
        "text",
        [
            "v_pk_add_f32 v[2:3], v[4:5], v[6:7] op_sel:[0,1]",
            "v_pk_add_f32 v[2:3], v[4:5], v[4:5] op_sel:[0,1] op_sel_hi:[1,0]",
            "v_pk_mul_f32 v[2:3], v[4:5], v[6:7] op_sel:[0,1] op_sel_hi:[0,1]",
            "v_pk_mul_f32 v[2:3], s[4:5], v[6:7] op_sel:[0,1]",
            "v_pk_fma_f32 v[2:3], v[4:5], v[6:7], v[8:9] op_sel:[0,1,0]",
            "v_pk_fma_f32 v[2:3], v[4:5], v[6:7], v[8:9] op_sel:[0,1,1] neg_lo:[0,1,0]",
        ],
    )
    def test_the_low_half_takes_the_high_half_of_the_second_source_alone(self, text):
        assert rules(text) == ["R27"]

    @pytest.mark.parametrize(
        "text",
        [
            "v_pk_add_f32 v[2:3], v[4:5], v[6:7]",
            "v_pk_add_f32 v[2:3], v[4:5], v[6:7] op_sel:[1,0]",
            "v_pk_add_f32 v[2:3], v[4:5], v[6:7] op_sel:[1,1]",
            "v_pk_add_f32 v[2:3], v[4:5], s[6:7] op_sel:[0,1]",
            "v_pk_mul_f32 v[2:3], v[4:5], v[6:7] op_sel_hi:[1,0]",
            "v_pk_fma_f32 v[2:3], v[4:5], v[6:7], v[8:9] op_sel:[0,0,1]",
            "v_pk_fma_f16 v2, v4, v6, v8 op_sel:[0,1,0]",
        ],
    )
    def test_other_forms_are_right(self, text):
        assert rules(text) == []


class TestTuples:
    # The assembler refuses them, so the number of a register is changed in the encoding.
    @pytest.mark.parametrize(
        ("text", "byte", "shown"),
        [
            ("v_pk_mul_f32 v[2:3], v[4:5], v[6:7]", 0, "v[3:4]"),
            ("v_pk_mul_f32 v[2:3], v[4:5], v[6:7]", 4, "v[5:6]"),
            ("global_load_dwordx4 v[4:7], v[2:3], off", 7, "v[5:8]"),
            ("ds_write_b64 v0, v[2:3]", 5, "v[3:4]"),
            ("v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], v[0:15]", 0, "v[1:16]"),
        ],
    )
    def test_an_odd_start(self, text, byte, shown):
        code = bytearray(assemble(text))
        assert rules(_as_words(code)) == []
        code[byte] += 1
        found = check(assemble_kernel("k", _as_words(code) + "\ns_endpgm"))
        assert [f.rule for f in found] == ["R28"]
        assert shown in found[0].message

    def test_single_registers_and_scalars_may_be_odd(self):
        assert rules("v_mov_b32_e32 v3, v5\ns_load_dword s5, s[0:1], 0x0") == []


def _as_words(code):
    words = (code[k : k + 4] for k in range(0, len(code), 4))
    return "\n".join(f".long 0x{int.from_bytes(word, 'little'):08x}" for word in words)


class TestRuns:
    LOAD = "global_load_dwordx2 v[2:3], v0, s[0:1]"

    @pytest.mark.parametrize(
        "second",
        [
            "global_load_dword v4, v2, s[0:1]",
            "global_load_dword v0, v5, s[0:1]",
            "global_store_dword v5, v6, s[0:1]",
            "buffer_load_dword v2, s[4:7], 0 offen lds",
            "global_load_dword v4, v5, s[0:1]\nglobal_load_dword v6, v3, s[0:1]",
        ],
    )
    def test_that_must_not_be_repeated_as_a_whole(self, second):
        assert rules(f"{self.LOAD}\n{second}") == ["R29"]
        assert rules(f"{self.LOAD}\ns_nop 0\n{second}") == []

    @pytest.mark.parametrize(
        "body",
        [
            f"{LOAD}\nglobal_load_dword v4, v0, s[0:1]",
            "global_load_dwordx2 v[2:3], v[2:3], off",
            "global_store_dword v5, v6, s[0:1]\nglobal_store_dword v5, v7, s[0:1]",
            "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_load_dwordx2 s[6:7], s[0:1], 0x8",
            f"{LOAD}\nds_write_b32 v2, v3",
        ],
    )
    def test_that_may_be(self, body):
        assert rules(body) == []

    def test_scalar_loads(self):
        first, second = "s_load_dwordx2 s[4:5], s[0:1], 0x0", "s_load_dword s6, s[4:5], 0x0"
        assert rules(f"{first}\n{second}") == ["R29"]
        assert rules(f"{first}\ns_waitcnt lgkmcnt(0)\n{second}") == []

    def test_only_where_xnack_may_be_on(self):
        body = f"{self.LOAD}\nglobal_load_dword v4, v2, s[0:1]\ns_endpgm"
        code = bytearray(assemble_kernel("k", body))
        flags = int.from_bytes(code[48:52], "little")
        assert flags >> 8 & 3 == 1  # any
        assert [f.rule for f in check(bytes(code))] == ["R29"]
        code[48:52] = (flags & ~0x300 | 0x200).to_bytes(4, "little")  # off
        assert check(bytes(code)) == []


def test_what_is_no_instruction():
    # A word of the encoding that gfx950 does not have; behind s_endpgm nobody comes to it.
    assert rules("s_nop 0\n.long 0xfffffff0") == ["R31"]
    assert rules("s_endpgm\n.long 0xfffffff0") == []

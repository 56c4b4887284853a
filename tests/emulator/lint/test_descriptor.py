"""Kernel descriptors that do not fit the code or the machine."""

import gzip
import io
import struct
from pathlib import Path

from elftools.elf.elffile import ELFFile

from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.lint import check


def findings(code):
    return [(f.rule, f.message) for f in check(code)]


def test_lds():
    assert findings(assemble_kernel("k", "s_endpgm", lds_size=163_840)) == []
    assert findings(assemble_kernel("k", "s_endpgm", lds_size=163_844)) == [
        ("K02", "it asks for 163,844 bytes")
    ]


class TestRegisters:
    def kernel(self, body, **sizes):
        return assemble_kernel("k", body + "\ns_endpgm", **sizes)

    def test_the_last_ones_that_there_are(self):
        body = "v_mov_b32_e32 v31, 0\nv_accvgpr_write_b32 a31, 0"
        assert findings(self.kernel(body, vgprs=64, accum_offset=32)) == []
        assert findings(self.kernel("v_mov_b32_e32 v63, 0", vgprs=64)) == []

    def test_past_the_allocation(self):
        ((rule, message),) = findings(self.kernel("v_mov_b32_e32 v64, 0", vgprs=64))
        assert rule == "K03"
        assert message == "it uses v0 to v64; accum_offset is 64, allocated are 64"

    def test_past_the_start_of_the_accumulation_registers(self):
        body = "v_mov_b32_e32 v32, 0"
        assert findings(self.kernel(body, vgprs=64, accum_offset=32))[0][0] == "K03"

    def test_accumulation_registers_past_the_allocation(self):
        body = "v_accvgpr_write_b32 a32, 0"
        ((rule, message),) = findings(self.kernel(body, vgprs=64, accum_offset=32))
        assert rule == "K03"
        assert "a0 to a32" in message

    def test_what_no_way_leads_to_does_not_count(self):
        assert findings(self.kernel("s_endpgm\nv_mov_b32_e32 v64, 0", vgprs=64)) == []

    def test_the_largest_workgroup(self):
        # 1,024 work items are 4 waves on each SIMD.
        assert findings(assemble_kernel("k", "s_endpgm", vgprs=128)) == []
        assert findings(assemble_kernel("k", "s_endpgm", vgprs=136)) == [
            ("K04", "4 waves of 136 registers on a SIMD with 512")
        ]


def test_code_object_version():
    code = bytearray(assemble_kernel("k", "s_endpgm"))
    code[8] = 1
    assert findings(bytes(code)) == [("K01", "its ELF ABI version is 1")]


def test_preloaded_arguments():
    file = Path(__file__).parents[1] / "data/triton_attention.co.gz"
    assert [f.rule for f in check(gzip.decompress(file.read_bytes()))] == ["K05"]


def test_entry():
    code = bytearray(assemble_kernel("k", "s_nop 0\ns_endpgm"))
    place = ELFFile(io.BytesIO(code)).get_section_by_name(".rodata")["sh_offset"] + 16
    (entry,) = struct.unpack_from("<q", code, place)
    struct.pack_into("<q", code, place, entry + 4)
    ((rule, message),) = findings(bytes(code))
    assert rule == "K06"
    assert "starts at 0x" in message

"""LDS bank conflicts against what was measured on gfx950.

64 banks of 4 bytes; 16-byte reads run in four phases of 16 lanes, 8-byte reads in two of 32
(HipKittens, analysis/paper_experiments/phases). The attention layouts below are those of its K and
V tiles; the kernel that this project follows measured conflicts in the ratio 30:29:11:0 for the
last four.
"""

import numpy as np
import pytest

from rocke_cupy.emulator import run
from rocke_cupy.emulator.assemble import assemble_kernel

LANES = np.arange(64)

BODY = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  {access}
  s_waitcnt lgkmcnt(0)
  s_endpgm
"""
READS = {4: "ds_read_b32 v4, v2", 8: "ds_read_b64 v[4:5], v2", 16: "ds_read_b128 v[4:7], v2"}
TRANSPOSED = "ds_read_b64_tr_b16 v[4:5], v2"


def cycles(access: str, addresses: np.ndarray) -> tuple[int, int]:
    """LDS cycles of one access, and those that it would take without conflicts."""
    code = assemble_kernel("k", BODY.format(access=access), lds_size=65536)
    report = run(code, "k", (1,), (64,), [addresses.astype(np.uint32)])
    ideal = int(report.bank_ideal.sum())
    return ideal + int(report.bank_extra.sum()), ideal


@pytest.mark.parametrize(("size", "phases"), [(4, 1), (8, 2), (16, 4)])
class TestSizes:
    def test_consecutive_lanes_do_not_conflict(self, size, phases):
        assert cycles(READS[size], size * LANES) == (phases, phases)

    def test_one_address_is_broadcast(self, size, phases):
        assert cycles(READS[size], 0 * LANES) == (phases, phases)

    def test_lanes_256_bytes_apart_all_conflict(self, size, phases):
        assert cycles(READS[size], 256 * LANES) == (64, phases)


@pytest.mark.parametrize(
    ("pitch", "expected"), [(256, 64), (256 + 16, 4)], ids=["unpadded", "padded by 16 bytes"]
)
def test_rows_of_k(pitch, expected):
    """A 32-row operand of a matrix product: lane l reads 16 bytes of row l % 32."""
    addresses = LANES % 32 * pitch + LANES // 32 * 16
    assert cycles(READS[16], addresses) == (expected, 4)


@pytest.mark.parametrize(("padding", "expected"), [(0, 8), (8, 8), (16, 4), (32, 2)])
def test_transposed_rows_of_v(padding, expected):
    """128 elements and padding a row: lane l reads 4 columns of row 4 * (l / 32) + l % 16 / 4."""
    row = 4 * (LANES // 32) + LANES % 16 // 4
    column = 16 * (LANES // 16 % 2) + 4 * (LANES % 4)
    assert cycles(TRANSPOSED, 2 * (row * (128 + padding) + column)) == (expected, 2)


@pytest.mark.parametrize(
    ("lanes", "shared"),
    [((0, 3), True), ((0, 12), True), ((0, 20), True), ((0, 27), True), ((4, 11), True),
     ((4, 16), True), ((4, 31), True), ((0, 4), False), ((0, 16), False), ((3, 28), False),
     ((15, 19), False), ((0, 32), False), ((4, 36), False)],
)  # fmt: skip
def test_which_lanes_of_a_16_byte_read_share_a_phase(lanes, shared):
    """All lanes read one place but two, which read another place in the same banks: each phase
    that has one of them takes a cycle more."""
    addresses = np.zeros(64, int)
    addresses[list(lanes)] = 256
    assert cycles(READS[16], addresses)[0] - 4 == (1 if shared else 2)


def test_lanes_that_are_off_do_not_count():
    access = "s_mov_b64 exec, 3\n  " + READS[4]
    assert cycles(access, 256 * LANES) == (2, 1)

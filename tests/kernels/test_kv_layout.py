"""The layout of keys and values in LDS: its bank arithmetic, and what the emulator counts.

gfx950 has 64 banks of 4 bytes. ds_read_b128 goes through in four phases of 16 lanes,
ds_read_b64_tr_b16 in two of 32, as measured by the authors of HipKittens.
"""

import numpy as np
import pytest
from helpers.compiled import compile_source
from helpers.emulated import attend
from helpers.problems import Case

from rocke_cupy.emulator import run
from rocke_cupy.kernels.build import OPTIONS, KernelSource
from rocke_cupy.kernels.source import translation_unit

BANKS, BANK_BYTES = 64, 4
HALF_OF_B128 = [
    [*range(0, 4), *range(12, 16), *range(20, 28)],
    [*range(4, 12), *range(16, 20), *range(28, 32)],
]
PHASES_B128 = [[lane + 32 * h for lane in phase] for h in (0, 1) for phase in HALF_OF_B128]
PHASES_B64 = [list(range(32)), list(range(32, 64))]

PROBE = """
#define ROCKE_PROBE(entry) \\
  extern "C" __global__ __launch_bounds__(64) void entry(int* k, int* v) { \\
    k[threadIdx.x] = rocke::k_lane_offset(threadIdx.x); \\
    v[threadIdx.x] = rocke::v_lane_offset(threadIdx.x); \\
  }
ROCKE_PROBE(probe)
"""


def lane_offsets():
    """Return where each lane starts to read keys and values, as the device code computes it."""
    text = translation_unit(
        "attention/flash_forward.hip", "// no kernel but the probe", "probe", {}
    )
    name, code = compile_source(KernelSource("probe", text + PROBE, OPTIONS), "7.0")
    k, v = np.zeros(64, np.int32), np.zeros(64, np.int32)
    run(code, name, (1,), (64,), [k, v])
    return k, v


def cycles(offsets, phases, lane_bytes):
    """Return the accesses to the busiest bank, summed over the phases of one read."""
    total = 0
    for phase in phases:
        words = offsets[phase][:, None] // BANK_BYTES + np.arange(lane_bytes // BANK_BYTES)
        distinct = np.unique(words)
        total += np.bincount(distinct % BANKS, minlength=BANKS).max()
    return total


def test_key_reads_meet_no_conflict():
    k, _ = lane_offsets()
    assert cycles(k, PHASES_B128, 16) == 4
    # Rows of 256 bytes side by side, as an unpadded tile has them: all lanes in the same banks.
    rows = np.arange(64) % 32 * 256 + np.arange(64) // 32 * 16
    assert cycles(rows, PHASES_B128, 16) == 64


def test_value_reads_meet_no_conflict():
    _, v = lane_offsets()
    assert cycles(v, PHASES_B64, 8) == 2
    # Padding of rows by 0, 8, 16 and 32 elements: the seed measured conflicts as 30 : 29 : 11 : 0.
    lane = np.arange(64)
    row, column = 4 * (lane // 32) + lane % 16 // 4, (lane // 16 % 2) * 32 + lane % 4 * 8
    padded = [cycles(row * (256 + 2 * pad) + column, PHASES_B64, 8) for pad in (0, 8, 16, 32)]
    assert padded == [8, 8, 4, 2]


@pytest.mark.parametrize("head_dim", [64, 128])
def test_emulator_counts_no_conflict(head_dim):
    case = Case(256, 640, heads=1, kv_heads=1, head_dim=head_dim)
    _, _, report = attend(case, fenced=False)
    assert report.bank_ideal.sum() > 0
    # Writes of the output, once a block: rows r and r + 16 meet in their banks.
    writes = np.array([i.mnemonic == "ds_write_b64" for i in report.program.instructions])
    lost, ideal = (of[: len(writes)] for of in (report.bank_extra, report.bank_ideal))
    assert writes.any()
    assert (lost[writes] <= ideal[writes]).all()
    assert lost[~writes].sum() == 0

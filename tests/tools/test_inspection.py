"""``python -m rocke_cupy inspect``: what it says of our kernels, and in which form."""

import dataclasses
import json

import pytest
from helpers.specs import spec

from rocke_cupy.__main__ import main
from rocke_cupy.emulator.lint import Finding
from rocke_cupy.emulator.mix import LdsSite
from rocke_cupy.emulator.timing import UNITS
from rocke_cupy.tools.inspection import _conflicts_of, as_json, as_text, inspect_kernel

pytestmark = pytest.mark.network

# Matrix instructions, LDS DMA and LDS reads of one tile follow from its size alone.
TILES = {64: (16, 2, 24), 128: (32, 4, 48)}


@pytest.mark.parametrize("head_size", TILES)
@pytest.mark.parametrize(
    "changes",
    [
        dict(causal=False),
        dict(causal=True),
        dict(sliding_window=100),
        dict(varlen=True),
        dict(persistent=True),
        dict(num_splits=2),
        dict(pack_gqa=True, causal=True),
        dict(block_n=128),
    ],
    ids=str,
)
def test_a_tile_has_the_matrix_work_and_the_traffic_of_its_size(head_size, changes):
    kinds = inspect_kernel(spec(head_size=head_size, **changes)).loop.kinds
    assert (kinds["mfma"], kinds["dma"], kinds["lds_read"]) == TILES[head_size]
    assert kinds["trans"] == 32


def test_a_masked_tile_has_a_compare_and_a_select_for_each_score_of_a_masked_block():
    # The last key, which is hidden, lies in the second of two blocks of 32 keys, 16 scores a lane.
    assert 32 <= inspect_kernel(spec(head_size=64)).masked_valu < 48


def test_the_command_prints_what_it_counted(capsys):
    main(["inspect", "--d", "64", "--causal", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["kernel"].startswith("rocke_attention_forward_d64")
    assert told["loop"]["kinds"]["mfma"] == 16
    assert told["loop"]["total"] == sum(told["loop"]["kinds"].values())
    assert told["loop"]["lds_reads"]["ds_read_b128"]["lost"] == 0
    sites = told["loop"]["lds_sites"]
    assert sum(site["count"] for site in sites) == told["loop"]["kinds"]["lds_read"]
    assert all(site["lost"] == 0 for site in sites)
    assert told["findings"] == []

    main(["inspect", "--d", "64", "--causal"])
    table = capsys.readouterr().out
    assert f"{told['vgprs']} VGPR" in table
    assert "matrix instructions" in table
    assert f"bank conflicts: 0 cycles a tile, in 0 of the code's {len(sites)} reads" in table
    limit = UNITS[told["pace"]["limit"]]
    assert f"modelled: {told['pace']['cycles']:,.0f} cycles" in table
    assert f"limit: {limit}" in table
    assert table.endswith("hazards and errata: 0 findings\n")


def test_the_linter_s_findings_are_told():
    inspection = inspect_kernel(spec(head_size=64))
    finding = Finding("R04", "k+0x8", "v_readfirstlane_b32 s4, v0", "own.h:3", "v0: 0 of 1", 0, 1)
    told = dataclasses.replace(inspection, findings=[finding])
    assert as_text(told).endswith(f"hazards and errata: 1 findings\n{finding}")
    (plain,) = json.loads(as_json(told))["findings"]
    assert plain == dataclasses.asdict(finding)


def test_the_table_names_the_reads_that_meet_conflicts():
    fine = LdsSite(offset=0x1000, text="ds_read_b128 v[0:3], v4", count=1, cycles=4, lost=0)
    clashing = LdsSite(offset=0x1008, text="ds_read_b32 v5, v4", count=0.5, cycles=1, lost=63)
    total, only = _conflicts_of([fine, clashing])
    assert "31.5 cycles a tile, in 1 of the code's 2 reads" in total
    assert "63 in each of 0.5: 0x1008 ds_read_b32 v5, v4" in only

"""The page of variants: its table is what the code objects cost today."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"


@pytest.mark.slow
@pytest.mark.network
def test_table_is_up_to_date():
    script = runpy.run_path(str(DOCS / "make_variants.py"))
    text = script["PAGE"].read_text()
    assert script["replaced"](text, script["table"]()) == text


def test_table_has_a_row_for_each_variant_and_no_spill():
    script = runpy.run_path(str(DOCS / "make_variants.py"))
    table = script["PAGE"].read_text().partition(script["START"])[2]
    for name in script["VARIANTS"]:
        (row,) = (line for line in table.splitlines() if line.startswith(f"| {name} |"))
        assert row.split("|")[3].strip() == "0 / 0"

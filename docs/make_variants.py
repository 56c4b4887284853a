"""Write the table of costs in variants.md, from the code objects of both hipRTC generations.

python docs/make_variants.py           # rewrites the table
python docs/make_variants.py --check   # exits with 1 if it is not up to date
"""

import argparse
import sys
from pathlib import Path

from rocke_cupy import AttentionDenseSpec
from rocke_cupy.tools.inspection import inspect_kernel

PAGE = Path(__file__).with_name("variants.md")
START, END = "<!-- made by make_variants.py -->", "<!-- end -->"
ROCMS = ("7.0", "7.14")

VARIANTS = {
    "head dim 64, causal": dict(head_size=64),
    "head dim 128, causal": dict(head_size=128),
    "head dim 40": dict(head_size=40),
    "head dim 96": dict(head_size=96),
    "fp16": dict(dtype="fp16"),
    "full": dict(causal=False),
    "window": dict(sliding_window=256),
    "window, both sides": dict(causal=False, sliding_window=65, window_right=64),
    "varlen": dict(varlen=True),
    "persistent, qb_major": dict(persistent=True, persist_decode="qb_major"),
    "persistent, hkv_major": dict(persistent=True, persist_decode="hkv_major"),
    "work order xcd": dict(work_order="xcd"),
    "no lazy_rescale": dict(lazy_rescale=False),
    "block_n 128": dict(block_n=128),
    "block_m 128": dict(block_m=128),
    "block_m 128, head dim 64": dict(block_m=128, head_size=64),
    "float32 out": dict(float32_out=True),
    "packed heads": dict(pack_gqa=True),
    "split keys": dict(num_splits=2, float32_out=True),
    "wide": dict(wide_kv=True),
    "packed softmax": dict(packed_softmax=True),
    "raised priority": dict(raised_priority=True),
    "scaled query": dict(scaled_query=True),
    "streaming, head dim 64": dict(streaming=True, head_size=64),
    "streaming": dict(streaming=True),
    "head dim 256": dict(head_size=256),
}
"""Fields of the spec by name; what is not named is bf16, causal, head dim 128, block_n 64."""


def spec_of(fields):
    """Return the spec of a variant; its shape changes nothing in the binary."""
    base = dict(batch=1, seqlen_q=512, seqlen_kv=512, num_query_heads=8, num_kv_heads=2)
    return AttentionDenseSpec(**{**base, "head_size": 128, **fields})


def rows(rocm):
    """Yield for each variant its name and what a table row says about it."""
    for name, fields in VARIANTS.items():
        found = inspect_kernel(spec_of(fields), rocm)
        yield (
            name,
            [
                f"{found.vgprs}",
                f"{found.vgpr_spills + found.sgpr_spills} / {found.scratch_bytes}",
                f"{found.lds_bytes:,}",
                f"{found.loop.kinds['valu']:g}",
                f"{found.loop.kinds['salu']:g}",
                f"{found.loop.total:g}",
                f"{found.masked_valu:g}",
            ],
        )


def table():
    """Return the table: a cell holds the figure of each generation, once if they agree."""
    by_rocm = [dict(rows(rocm)) for rocm in ROCMS]
    titles = ["variant", "VGPR", "spilled registers / scratch bytes", "LDS bytes"]
    titles += ["vector", "scalar", "all instructions", "vector, masked tile on top"]
    lines = [f"| {' | '.join(titles)} |", "| --- |" + " ---: |" * (len(titles) - 1)]
    for name in VARIANTS:
        cells = [
            old if old == new else f"{old}; {new}"
            for old, new in zip(*(found[name] for found in by_rocm), strict=True)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def replaced(text, new_table):
    """Return the page with another table between its marks."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{new_table}\n{END}{after}"


def main():
    """Rewrite the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    check = parser.parse_args().check
    text = PAGE.read_text()
    new = replaced(text, table())
    if check and new != text:
        sys.exit(f"{PAGE.name} is not up to date: run python docs/make_variants.py")
    if not check:
        PAGE.write_text(new)


if __name__ == "__main__":
    main()

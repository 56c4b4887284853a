"""Replay of instructions that an independent emulator recorded: see data/README.md."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from rocke_cupy.emulator.step import ACCUM_OFFSET, SCC, State, step

DATA = Path(__file__).parents[1] / "data" / "gfx950_instructions.jsonl.gz"
NAMES = {"vcc_lo": 106, "vcc_hi": 107, "m0": 124, "exec_lo": 126, "exec_hi": 127, "scc": SCC}
ONE_ULP = ("v_exp_f32", "v_log_f32", "v_rcp_f32", "v_rcp_iflag_f32", "v_rsq_f32")
SHARED_BASE = 0x10000


def scalar_index(name: str) -> int:
    return NAMES[name] if name in NAMES else int(name[1:])


def row(name: str) -> int:
    return int(name[1:]) + (ACCUM_OFFSET if name[0] == "a" else 0)


def words(text: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(text), "<u4")


def states(record: dict) -> tuple[State, State]:
    """The state before, and the state that must follow; what is not recorded must stay."""
    rng = np.random.default_rng(0)
    before = State(v=rng.integers(0, 2**32, (512, 64), np.uint32))
    before.s[:] = 0
    for name, value in record["scalars_before"].items():
        before.s[scalar_index(name)] = value
    for name, (old, _) in record["vgprs"].items():
        before.v[row(name)] = words(old)
    after = State(before.s.copy(), before.v.copy())
    after.s[:] = before.s
    for name, value in record["scalars_changed"].items():
        after.s[scalar_index(name)] = value
    for name, (_, new) in record["vgprs"].items():
        after.v[row(name)] = words(new)
    return before, after


def mismatches(record: dict) -> list[str]:
    state, expected = states(record)
    code = b"".join(int(word, 16).to_bytes(4, "little") for word in record["encoding"].split())
    distance = step(code, state)
    mnemonic = record["asm"].split()[0]
    if "src_shared_base" in record["asm"]:
        low = int(re.search(r"s\[(\d+):", record["asm"])[1])
        expected.s[low + 1] = SHARED_BASE
    found = [
        f"s{k} is {state.s[k]:#x}, recorded {expected.s[k]:#x}"
        for k in np.flatnonzero(state.s != expected.s)
    ]
    gap = np.abs(state.v.astype(np.int64) - expected.v.astype(np.int64))
    allowed = 1 if mnemonic.removesuffix("_e32").removesuffix("_e64") in ONE_ULP else 0
    found += [
        f"v{r} lane {lane} is {state.v[r, lane]:#x}, recorded {expected.v[r, lane]:#x}"
        for r, lane in np.argwhere(gap > allowed)
    ]
    if mnemonic != "s_endpgm" and distance != record["pc_delta"]:
        found.append(f"continues {distance} bytes further, recorded {record['pc_delta']}")
    return found


@pytest.fixture(scope="module")
def records() -> list[dict]:
    with gzip.open(DATA, "rt") as lines:
        return [json.loads(line) for line in lines]


def test_every_recorded_instruction_gives_what_was_recorded(records):
    wrong = {record["asm"]: found for record in records if (found := mismatches(record))}
    assert not wrong, f"{len(wrong)} of {len(records)}: {dict(list(wrong.items())[:5])}"


def test_the_recording_is_complete(records):
    assert len(records) == 1111
    assert len(Counter(record["asm"].split()[0] for record in records)) == 159


def test_the_replay_notices_a_wrong_bit(records):
    record = next(r for r in records if r["asm"].startswith("v_fma_f32"))
    name = record["asm"].split()[1].rstrip(",")
    before, after = record["vgprs"][name]
    flipped = f"{int(after[0], 16) ^ 1:x}{after[1:]}"
    changed = {**record, "vgprs": {**record["vgprs"], name: [before, flipped]}}
    assert len(mismatches(changed)) == 1

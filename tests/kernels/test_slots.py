"""The order of the softmax beside the matrix instructions: a wrong one does not compile."""

import importlib.util
import itertools
import re
from pathlib import Path

import pytest
from helpers.budget import assert_within_budget
from helpers.emulated import attend
from helpers.problems import Case
from helpers.specs import spec

from rocke_cupy.emulator import hiprtc
from rocke_cupy.emulator.mix import kind_of
from rocke_cupy.kernels.build import OPTIONS
from rocke_cupy.kernels.source import kernels_src, translation_unit
from rocke_cupy.kernels.variant import KernelVariant
from rocke_cupy.tools.block import run_block

ROCM = ("7.0", "7.14")
TABLES = re.findall(
    r'beside_(pv|qk)<(\d+), (true|false)> = "(.*)"',
    (kernels_src() / "parts/slot_tables.h").read_text(encoding="utf-8"),
)
ROOT = Path(__file__).resolve().parents[2]


def slot_search():
    """Return the script that finds the orders, as a module."""
    found = importlib.util.spec_from_file_location("s", ROOT / "benchmarks/slot_search.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


SEARCH = slot_search()


def check(order, cluster, mfmas, rocm="7.0"):
    """Compile an order in place of the one that the tables have."""
    unit = translation_unit(
        "attention/flash_forward.hip",
        "// no kernel but the order",
        "order",
        KernelVariant.of(spec()).constants(),
    )
    (table,) = (t for t in TABLES if t[:3] == (cluster, str(mfmas), "false"))
    text = unit.replace(f'"{table[3]}"', f'"{order}"')
    assert text != unit or order == table[3]
    block = {"pv": 0, "qk": 1}[cluster]
    text += f"template struct rocke::Order<Variant, {block}, {mfmas}>;\n"
    hiprtc.compile(text, OPTIONS, rocm=rocm)


PV, QK = (
    next(order for kind, mfmas, scaled, order in TABLES if (kind, mfmas, scaled) == key)
    for key in (("pv", "8", "false"), ("qk", "8", "false"))
)


def moved(order, letter, where):
    """Return an order with the last of a letter moved to a place."""
    at = order.rindex(letter)
    rest = order[:at] + order[at + 1 :]
    return rest[:where] + letter + rest[where:]


WRONG = {
    "an exp before its product": ("e" + PV.replace("e", "", 1), "pv", "exp stands before its"),
    "a conversion before its exp": (moved(QK, "c", 0), "qk", "conversion or an addition stands"),
    "an addition before its exp": (moved(PV, "A", 0), "pv", "conversion or an addition stands"),
    "a conversion before the fragment is read": (
        "MMMMMMMMeec" + re.sub("[mM]", "", PV).replace("c", "", 1).replace("ee", "", 1),
        "pv",
        "overwrites what P V has yet to read",
    ),
    "partial sums before they are complete": (moved(QK, "T", 20), "qk", "partial sums are added"),
    "a pair at an odd element": ("mM" + QK.replace("M", "", 1) + "m", "qk", "odd element"),
    "a sum too few": (QK.replace("s", ""), "qk", "missing, or there is one too many"),
    "an MFMA too many": (QK + "|", "qk", "missing, or there is one too many"),
}  # fmt: skip


@pytest.mark.parametrize("rocm", ROCM)
def test_the_orders_of_the_tables_compile(rocm):
    check(PV, "pv", 8, rocm)
    check(QK, "qk", 8, rocm)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_order_does_not_compile(name):
    order, cluster, message = WRONG[name]
    with pytest.raises(hiprtc.CompileError, match=message):
        check(order, cluster, 8)


def test_each_cluster_has_its_table():
    clusters = {("qk", str(n)) for n in range(2, 17, 2)} | {("pv", str(n)) for n in (4, 8, 12, 16)}
    assert {t[:2] for t in TABLES if t[2] == "false"} == clusters


@pytest.mark.parametrize("table", TABLES, ids=" ".join)
def test_the_search_takes_the_orders_of_the_tables_for_right(table):
    kind, mfmas, scaled, order = table
    cluster = SEARCH.Cluster(int(mfmas), second=kind == "qk", scaled=scaled == "true")
    assert cluster.nops(order) is not None
    assert order.count("|") == cluster.mfmas


@pytest.mark.parametrize("rocm", ROCM)
@pytest.mark.parametrize("packed_softmax", [False, True])
def test_the_compilers_keep_to_the_order(packed_softmax, rocm):
    """Between two barriers of the loop stand the letters of the tables, in their order."""
    described = spec(head_size=64, packed_softmax=packed_softmax)
    trace = run_block(described, 1024, rocm=rocm, races=False, timing=True)
    text = [trace.program.instructions[e["pc"]].text for e in trace.timing.traces[0]]
    clusters = [
        letters
        for between, group in itertools.groupby(text, lambda t: t.startswith("s_barrier"))
        if not between and (letters := "".join(map(letter, group))).count("|") == 8
    ]
    middle = clusters[len(clusters) // 2 : len(clusters) // 2 + 2]
    if packed_softmax:
        for found in middle:
            assert "m" not in found
            assert found.count("M") == 8
            assert found.count("a") <= 1  # the last sum of a tile
        return
    expected = [order.upper().replace("S", "A").replace("T", "A") for order in (PV, QK)]
    assert sorted(m.upper() for m in middle) == sorted(expected)


QUICK = (16, 40, 96, 112)


@pytest.mark.parametrize("packed_softmax", [False, True])
@pytest.mark.parametrize(
    "head_dim",
    [pytest.param(d, marks=[] if d in QUICK else pytest.mark.slow) for d in range(8, 129, 8)],
)
def test_each_order_is_right(head_dim, packed_softmax):
    number = head_dim // 8 + packed_softmax
    case = Case(
        70,
        333,
        heads=2,
        kv_heads=1,
        head_dim=head_dim,
        causal=number % 2 == 0,
        amplitude=(1, 8)[number % 2],
        dtype=("bf16", "fp16")[number % 3 == 0],
        seed=head_dim,
    )
    memory = ("eager", "lazy")[number // 2 % 2]
    out, lse, _ = attend(case, ROCM[number % 2], memory=memory, packed_softmax=packed_softmax)
    assert_within_budget(case, out, lse)


def letter(text):
    """Return an instruction's letter, or nothing."""
    mnemonic = text.split()[0]
    names = {
        "v_mul_f32": "m",
        "v_pk_mul_f32": "M",
        "v_exp_f32": "e",
        "v_add_f32": "a",
        "v_pk_add_f32": "A",
    }
    if mnemonic.startswith("v_cvt_pk"):
        return "c"
    return "|" if kind_of(mnemonic) == "mfma" else names.get(re.sub(r"_e\d\d$", "", mnemonic), "")

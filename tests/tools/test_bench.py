"""``python -m rocke_cupy bench``: its protocol, on implementations of known speed; its output."""

import csv

import ml_dtypes
import numpy as np
import pytest

from rocke_cupy.reference import attention
from rocke_cupy.tools import bench, peers
from rocke_cupy.tools.bench import SHAPES, Row
from rocke_cupy.tools.commands import PEERS, SUITES
from rocke_cupy.tools.peers import Shape, UnavailableError

SMALL = Shape("mha", 1, 2, 1, 64, 64, True)


class Steady:
    """An implementation whose calls take a given time each, and whose results are given."""

    def __init__(self, milliseconds, out=0.0):
        self.milliseconds, self.out, self.calls = milliseconds, out, 0

    def call(self, number):
        self.calls += 1

    def elapsed(self, calls):
        before = self.calls
        calls()
        return self.milliseconds * (self.calls - before)

    def result(self):
        return np.full((1, 64, 2, 64), self.out, np.float32)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(bench, "_WARM_SECONDS", 0.0)


def test_samples_are_microseconds_of_a_call_and_long_enough():
    fast, slow = Steady(0.01), Steady(10.0)
    found = bench.take_samples({"fast": fast, "slow": slow}, 3)
    assert found["fast"] == pytest.approx([10.0] * 3)
    assert found["slow"] == pytest.approx([10_000.0] * 3)
    # 3 ms a sample: 300 calls of the fast one after its warm-up of 5, and one of the slow one.
    assert (fast.calls, slow.calls) == (5 + 3 * 300, 5 + 3)


def test_a_row_has_median_and_percentiles():
    row = bench._row("x", SMALL, [float(n) for n in range(1, 102)])
    assert (row.microseconds, row.low, row.high) == (51, 11, 91)


def test_operations_are_halved_for_causal():
    assert SMALL.operations == 4 * 2 * 64 * 64 * 64 / 2
    row = Row("measured", "x", SMALL, 2.0)
    assert row.tflops == pytest.approx(SMALL.operations / 2e-6 * 1e-12)


def test_a_peer_with_another_result_is_refused():
    ours = Steady(1.0, out=1.0)
    assert bench._checked(Steady(1.0, out=1.01), ours)
    with pytest.raises(UnavailableError, match=r"differs from ours by 0\.5"):
        bench._checked(Steady(1.0, out=0.5), ours)
    with pytest.raises(UnavailableError, match="nan"):
        bench._checked(Steady(1.0, out=np.nan), ours)


def test_peers_that_are_missing_or_fail_are_told_and_left_out(monkeypatch):
    def missing(shape, sets):
        raise UnavailableError("it is not there")

    def broken(shape, sets):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(bench, "Ours", lambda shape, sets: Steady(1.0))
    peers = {"missing": missing, "broken": broken, "good": lambda shape, sets: Steady(2.0)}
    monkeypatch.setattr(bench, "PEERS", peers)
    notes = []
    rows = bench.measure(SMALL, list(peers), 3, notes.append)
    assert [(r.implementation, r.kind, r.microseconds) for r in rows] == [
        ("rocke_cupy", "measured", 1000.0), ("good", "measured", 2000.0),
    ]  # fmt: skip
    assert "it is not there" in notes[0]
    assert "ZeroDivisionError: oops" in notes[1]


def test_adapters_say_what_is_not_installed(monkeypatch):
    monkeypatch.delenv("FLYDSL_ROOT", raising=False)
    with pytest.raises(UnavailableError, match="FLYDSL_ROOT"):
        peers.PEERS["flydsl"](SMALL, 1)
    for name in ("aiter", "torch"):
        with pytest.raises(UnavailableError, match=r"cannot be imported|no AMD GPU"):
            peers.PEERS[name](SMALL, 1)


def test_the_arguments_name_all_suites_and_peers():
    assert set(SUITES) == {shape.suite for shape in SHAPES}
    assert set(PEERS) == set(peers.PEERS)


@pytest.mark.network
def test_without_a_gpu_times_are_modelled_and_it_says_so(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(bench, "SHAPES", [Shape("short", 1, 4, 4, 512, 64, False)])
    rows = bench.run(
        ["short"], [], samples=3, rocm="7.0", modelled=True,
        csv_file=tmp_path / "rows.csv", plot_file=None,
    )  # fmt: skip
    told = capsys.readouterr().out
    assert "MODELLED, not measured" in told
    assert "modelled  rocke_cupy" in told
    assert {r.kind for r in rows} == {"modelled"}
    (line,) = csv.DictReader((tmp_path / "rows.csv").read_text().splitlines())
    assert (line["kind"], line["length"], line["p10_us"]) == ("modelled", "512", "")
    assert float(line["cycles"]) > 0


def test_the_plot_has_a_panel_for_each_group(tmp_path):
    pytest.importorskip("matplotlib")
    rows = [
        Row("measured", name, Shape("mha", 1, 2, 2, length, 64, causal), 10.0)
        for name in ("a", "b") for length in (64, 128) for causal in (True, False)
    ]  # fmt: skip
    bench.plot(rows, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


@pytest.mark.gpu
def test_our_adapter_computes_attention_and_takes_time(cp):
    ours = peers.Ours(SMALL, 2)
    q, k, v = peers.arrays(SMALL, 0)
    assert q.dtype == ml_dtypes.bfloat16
    expected = attention(q, k, v, causal=True).astype(np.float32)
    np.testing.assert_allclose(ours.result(), expected, atol=0.03)
    assert ours.elapsed(lambda: ours.call(1)) > 0


@pytest.mark.parametrize(
    ("given", "told"), [(["torch"], "Not compared with torch: others' kernels"), (None, "")]
)
def test_peers_that_cannot_be_compared_with_are_named(given, told, capsys, monkeypatch):
    monkeypatch.setattr(bench, "SHAPES", [])
    bench.run(
        SUITES, given, samples=1, rocm="7.0", modelled=True, csv_file=None, plot_file=None
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert told in printed
    assert ("Not compared" in printed) == bool(told)

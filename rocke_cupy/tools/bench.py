"""``python -m rocke_cupy bench``: TFLOPS on a real MI355X, modelled time where there is none.

benchmarks/README.md has the protocol. A run either measures or models, never both: each row says
which.
"""

from __future__ import annotations

import csv
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ..arch import ARCH, device_arch, is_virtual
from .config import last_words
from .forms import OtherForm, forms_of, spec_of, verdict
from .peers import PEERS, Ours, Shape, Timed, UnavailableError

OURS = "rocke_cupy"
CONVENTION = "TFLOPS count 4 B H S S D operations, half of them when causal."

_WARM_SECONDS, _SAMPLE_MILLISECONDS = 0.3, 3.0
_ROTATED_BYTES, _MOST_SETS = 512 << 20, 16
"""Sets of arrays go round, so that no call finds its own in the 256 MB of the Infinity Cache."""


def _grid(suite: str, batch: int, heads: int, kv_heads: int, lengths: Iterable[int]) -> list[Shape]:
    return [
        Shape(suite, batch, heads, kv_heads, length, head_dim, causal)
        for head_dim in (128, 64)
        for causal in (True, False)
        for length in lengths
    ]


_LONG = (1024, 2048, 4096, 8192, 16384)
SHAPES = [
    Shape("seed", 1, 128, 8, 8192, 128, True),
    *_grid("mha", 16, 16, 16, _LONG),
    *_grid("gqa", 16, 64, 8, _LONG),
    *(Shape("aiter", 1, 32, 8, n, 128, True) for n in (1024, 2048, 4096, 8192)),
    *(Shape("short", 2, 32, 32, n, 128, False) for n in (512, 1024, 2048, 4096)),
]
"""The shapes for which figures are published: the seed's, HipKittens', aiter's, FlyDSL's."""


@dataclass(frozen=True)
class Row:
    """The result of one implementation on one shape.

    `low` and `high` are the 10th and 90th percentile of the samples; modelled rows have neither,
    but cycles.
    """

    kind: str
    implementation: str
    shape: Shape
    microseconds: float
    low: float | None = None
    high: float | None = None
    cycles: float | None = None

    @property
    def tflops(self) -> float:
        """Return the throughput, by `CONVENTION`."""
        return self.shape.operations / self.microseconds * 1e-6


# ---- measuring ----


def measure(
    shape: Shape,
    peers: Sequence[str],
    samples: int,
    note: Callable[[str], None],
    forms: bool = False,
) -> list[Row]:
    """Time all implementations on one shape, in turns.

    Parameters
    ----------
    shape : Shape
    peers : sequence of str
        Keys of `rocke_cupy.tools.peers.PEERS`.
    samples : int
        How many samples of each implementation.
    note : callable
        Gets a sentence for each peer that cannot run.
    forms : bool
        Also time the other forms of our loop.
    """
    sets = max(1, min(_MOST_SETS, -(-_ROTATED_BYTES // shape.set_bytes)))
    ours = Ours(shape, sets)
    implementations: dict[str, Timed] = {OURS: ours}
    others: dict[str, Callable[[], Timed]] = {
        name: partial(PEERS[name], shape, sets) for name in peers
    }
    if forms:
        others |= {n: partial(OtherForm, shape, sets, spec) for n, spec in forms_of(shape).items()}
    for name, make in others.items():
        try:
            implementations[name] = _checked(make(), ours)
        except UnavailableError as error:
            note(f"{name} on {shape}: skipped, {error}")
        except Exception as error:  # whatever a peer raises, the others go on
            note(f"{name} on {shape}: skipped, it failed with {type(error).__name__}: {error}")
    return [
        _row(name, shape, values) for name, values in take_samples(implementations, samples).items()
    ]


def _checked(peer: Timed, ours: Timed) -> Timed:
    """Return a peer whose result agrees with ours; a fast wrong one proves nothing."""
    worst = float(np.abs(peer.result() - ours.result()).max())
    if not worst < 0.05:
        raise UnavailableError(f"its result differs from ours by {worst:.3g}")
    return peer


def take_samples(implementations: dict[str, Timed], samples: int) -> dict[str, list[float]]:
    """Return microseconds of a call, a list of samples for each implementation.

    All are warmed up first; then they take turns, so that clock and temperature change for all
    alike.
    """
    calls = {name: _warm_up(timed) for name, timed in implementations.items()}
    found: dict[str, list[float]] = {name: [] for name in implementations}
    for _ in range(samples):
        for name, timed in implementations.items():
            found[name].append(_sample(timed, calls[name]))
    return found


def _warm_up(timed: Timed) -> int:
    """Run for a while; return how many calls make a sample."""
    end = time.monotonic() + _WARM_SECONDS
    while True:
        microseconds = _sample(timed, 5)
        if time.monotonic() > end:
            return max(1, round(_SAMPLE_MILLISECONDS * 1000 / microseconds))


def _sample(timed: Timed, count: int) -> float:
    def calls() -> None:
        for number in range(count):
            timed.call(number)

    return timed.elapsed(calls) / count * 1000


def _row(name: str, shape: Shape, microseconds: list[float]) -> Row:
    low, high = np.percentile(microseconds, [10, 90]).tolist()
    return Row("measured", name, shape, statistics.median(microseconds), low, high)


# ---- modelling ----


def model(shape: Shape, rocm: str, forms: bool = False) -> list[Row]:
    """Return the modelled time of our kernel on one shape, and of its other forms if asked for."""
    from .grid_time import grid_time

    specs = {OURS: spec_of(shape)} | (forms_of(shape) if forms else {})
    times = {name: grid_time(spec, rocm) for name, spec in specs.items()}
    return [
        Row("modelled", name, shape, time_of.microseconds, cycles=time_of.cycles)
        for name, time_of in times.items()
    ]


# ---- output ----


def as_text(row: Row) -> str:
    """Return a row as a line of the table."""
    spread = "" if row.low is None else f"{row.low:>10.1f} ..{row.high:>9.1f}"
    cycles = "" if row.cycles is None else f"{row.cycles:>13,.0f} cycles"
    return (
        f"{row.kind:<9} {row.implementation:<11} {row.shape!s:<28} {row.microseconds:>10.1f} us"
        f"{spread}{cycles}{row.tflops:>8.0f} TFLOPS"
    )


_COLUMNS = (
    "kind", "implementation", "suite", "batch", "heads", "kv_heads", "length", "head_dim",
    "causal", "median_us", "p10_us", "p90_us", "cycles", "tflops",
)  # fmt: skip


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write all rows, one a line."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for r in rows:
            s = r.shape
            writer.writerow(
                [
                    r.kind, r.implementation, s.suite, s.batch, s.heads, s.kv_heads, s.length,
                    s.head_dim, int(s.causal), r.microseconds, r.low, r.high, r.cycles, r.tflops,
                ]
            )  # fmt: skip


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw TFLOPS over the length, a panel for each group of shapes.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    from matplotlib.figure import Figure

    groups: dict[str, list[Row]] = {}
    for row in rows:
        s = row.shape
        title = (
            f"B{s.batch} {s.heads}/{s.kv_heads} D{s.head_dim} {'causal' if s.causal else 'full'}"
        )
        groups.setdefault(title, []).append(row)
    columns = min(4, len(groups))
    lines = -(-len(groups) // columns)
    figure = Figure(figsize=(4 * columns, 3 * lines), layout="constrained")
    figure.suptitle(f"{rows[0].kind} bf16 TFLOPS")
    axes = figure.subplots(lines, columns, squeeze=False).flat
    for panel, (title, members) in zip(axes, groups.items(), strict=False):
        for name in dict.fromkeys(r.implementation for r in members):
            own = [r for r in members if r.implementation == name]
            panel.plot([r.shape.length for r in own], [r.tflops for r in own], "o-", label=name)
        panel.set_title(title)
        panel.set_xscale("log", base=2)
        panel.set_ylim(bottom=0)
        panel.legend()
    figure.savefig(path)


def run(
    suites: Sequence[str],
    peers: Sequence[str] | None,
    *,
    samples: int,
    rocm: str,
    modelled: bool,
    csv_file: Path | None,
    plot_file: Path | None,
    forms: bool = False,
) -> list[Row]:
    """Measure or model the chosen shapes and report them."""
    why = "it was asked for" if modelled else _why_not_measured()
    if why:
        print(
            f"MODELLED, not measured: {why}. Times follow from the emulator's timing model "
            "(docs/timing_model.md), at the clock that a MI355X sustains."
        )
        if peers:
            print(
                f"Not compared with {', '.join(peers)}: others' kernels are measured, not modelled."
            )
    print(CONVENTION)
    chosen = tuple(PEERS) if peers is None else peers
    shapes = [shape for shape in SHAPES if shape.suite in suites]
    rows: list[Row] = []
    for number, shape in enumerate(shapes):
        _show_progress(number, len(shapes), shape)
        new = model(shape, rocm, forms) if why else measure(shape, chosen, samples, print, forms)
        _clear_progress()
        for row in new:
            print(as_text(row), flush=True)
        rows += new
    if forms:
        for sentence in verdict(((r.implementation, r.shape, r.microseconds) for r in rows), OURS):
            print(sentence)
    if csv_file:
        write_csv(rows, csv_file)
    if plot_file:
        try:
            plot(rows, plot_file)
        except ImportError:
            print("No plot: matplotlib is not installed (pip install 'rocke_cupy[bench]').")
    return rows


def _why_not_measured() -> str:
    """Return why nothing can be measured here, or an empty string."""
    if is_virtual():
        return "this is the virtual device"
    try:
        import cupy

        if not cupy.cuda.is_available():
            return "CuPy finds no device"
        arch = device_arch(cupy.cuda.runtime.getDevice())
    except ImportError as error:
        return f"CuPy cannot be imported: {last_words(error)}"
    except NotImplementedError as error:
        return str(error)
    return "" if arch == ARCH else f"the device is {arch}, not {ARCH}"


def _show_progress(done: int, total: int, shape: Shape) -> None:
    if sys.stderr.isatty():
        bar = "#" * (30 * done // total)
        print(f"\r[{bar:<30}] {done}/{total}  {shape!s:<30}", end="", file=sys.stderr, flush=True)


def _clear_progress() -> None:
    if sys.stderr.isatty():
        print(f"\r{'':<80}\r", end="", file=sys.stderr, flush=True)

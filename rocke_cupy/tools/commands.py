"""The commands of ``python -m rocke_cupy`` that work on kernels: their arguments.

What they do is imported when one of them runs: it needs the emulator's packages.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..spec import BLOCK_M, AttentionDenseSpec

SUITES = ("seed", "mha", "gqa", "aiter", "short")
PEERS = ("aiter", "flydsl", "torch")

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_inspect(commands: Commands) -> None:
    """Add ``inspect``."""
    parser = commands.add_parser("inspect", help="count what a kernel executes, on the emulator")
    _add_spec_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run_inspect)


def _run_inspect(options: argparse.Namespace) -> None:
    from . import inspection

    try:
        spec = _spec_from(options)
    except ValueError as error:
        raise SystemExit(f"inspect: there is no such kernel, {error}") from None
    inspected = inspection.inspect_kernel(spec, options.rocm)
    print(inspection.as_json(inspected) if options.json else inspection.as_text(inspected))


def add_bench(commands: Commands) -> None:
    """Add ``bench``."""
    parser = commands.add_parser(
        "bench", help="measure TFLOPS on a MI355X; without one, print modelled times"
    )
    parser.add_argument(
        "--suite", nargs="+", choices=SUITES, default=SUITES, help="groups of shapes (default all)"
    )
    parser.add_argument(
        "--peers", nargs="*", choices=PEERS, help="compare with, where there is a GPU (default all)"
    )
    parser.add_argument("--samples", type=int, default=30, help="of each shape (default 30)")
    parser.add_argument("--modelled", action="store_true", help="model even if there is a GPU")
    parser.add_argument(
        "--forms",
        action="store_true",
        help="also the other forms of the loop, and which of them `select` should take",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all rows")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw them, with matplotlib")
    parser.add_argument("--rocm", choices=("7.0", "7.14"), default="7.0", help="of modelled times")
    parser.set_defaults(run=_run_bench)


def _run_bench(options: argparse.Namespace) -> None:
    from . import bench

    bench.run(
        options.suite,
        options.peers,
        samples=options.samples,
        rocm=options.rocm,
        modelled=options.modelled,
        csv_file=options.csv,
        plot_file=options.plot,
        forms=options.forms,
    )


def _add_spec_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--d", type=int, default=128, help="head size (default 128)")
    parser.add_argument("--dtype", choices=("bf16", "fp16"), default="bf16")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--window", type=int, default=0, metavar="KEYS", help="sliding window")
    parser.add_argument("--block-n", type=int, default=64, choices=(64, 128))
    for flag in (
        "varlen",
        "persistent",
        "pack-gqa",
        "split",
        "wide-kv",
        "float32-out",
        "streaming",
    ):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--strict-rescale", action="store_true", help="no lazy rescale")
    parser.add_argument(
        "--rocm", choices=("7.0", "7.14"), default="7.0", help="hipRTC's generation"
    )


def _spec_from(options: argparse.Namespace) -> AttentionDenseSpec:
    return AttentionDenseSpec(
        batch=1,
        seqlen_q=BLOCK_M,
        seqlen_kv=BLOCK_M,
        num_query_heads=8 if options.pack_gqa else 1,
        num_kv_heads=1,
        head_size=options.d,
        causal=options.causal,
        dtype=options.dtype,
        sliding_window=options.window,
        ragged=True,
        varlen=options.varlen,
        block_n=options.block_n,
        persistent=options.persistent,
        lazy_rescale=not options.strict_rescale,
        float32_out=options.float32_out,
        num_splits=2 if options.split else 1,
        pack_gqa=options.pack_gqa,
        work_order="grid" if options.persistent else "xcd",
        wide_kv=options.wide_kv,
        streaming=options.streaming,
    )

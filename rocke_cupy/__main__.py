"""``python -m rocke_cupy``: what this installation is and would run on."""

from __future__ import annotations

import argparse
import os
import sys

from .tools.commands import add_bench, add_inspect
from .tools.config import show_config


def main(arguments: list[str] | None = None) -> None:
    """Run one command of the package."""
    parser = argparse.ArgumentParser(prog="python -m rocke_cupy", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    config = commands.add_parser("config", help="print versions, device and folders (the default)")
    config.set_defaults(run=lambda options: show_config())
    add_inspect(commands)
    add_bench(commands)
    parser.set_defaults(run=lambda options: show_config())
    options = parser.parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has had enough, as `head` does. Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

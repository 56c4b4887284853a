"""News of what takes long at first use."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Print a line on standard error, with the name of the package."""
    print(f"rocke_cupy: {text}", file=sys.stderr, flush=True)

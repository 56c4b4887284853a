"""Progress of a slow kernel on standard error."""

from __future__ import annotations

import sys
import time

_FIRST_AFTER_SECONDS = 3.0
_EVERY_SECONDS = {True: 0.5, False: 10.0}  # on a terminal or not


class Progress:
    """What is called with the share that is done.

    It is quiet unless the kernel takes more than a few seconds. A context manager: at its end the
    line that it wrote on a terminal is closed.
    """

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._terminal = sys.stderr.isatty()
        self._start = time.monotonic()
        self._next = self._start + _FIRST_AFTER_SECONDS
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Note that `done` of `total` workgroups are finished."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS[self._terminal]
        self._shown = True
        text = (
            f"rocke_cupy: {self._kernel}: {done} of {total} workgroups "
            f"after {now - self._start:.0f} s"
        )
        if self._terminal:
            print(f"\r{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def __exit__(self, *exception: object) -> None:
        if self._shown and self._terminal:
            print(file=sys.stderr, flush=True)

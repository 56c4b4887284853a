"""How launches on the virtual device are executed, and the reports of the last ones."""

from __future__ import annotations

import ctypes
import os
from collections import deque
from dataclasses import replace
from typing import Any

from rocke_cupy.emulator.device import hip_abi, variables
from rocke_cupy.emulator.execution.report import Report
from rocke_cupy.emulator.options import Options

reports: deque[Report] = deque(maxlen=100)
"""The reports of the last launches, the newest last."""

_options = Options(
    memory=os.environ.get(variables.MEMORY) or Options.memory,
    schedule=os.environ.get(variables.SCHEDULE) or Options.schedule,
)
_execute = True


def active() -> bool:
    """Say whether this process runs with the virtual device."""
    return variables.ROOT in os.environ


def options() -> Options:
    """Return how the next launch is executed."""
    return _options


class configure:  # noqa: N801 (used like a function)
    """Set how the launches that follow are executed.

    As a context manager it restores the former settings at the end. Arguments left out, or None,
    keep their setting.

    Parameters
    ----------
    execute : bool
        False: launches are checked as always, then nothing is executed. For measuring what a call
        costs on the host; results are whatever the memory held.
    **options
        The fields of `rocke_cupy.emulator.options.Options`.
    """

    def __init__(self, *, execute: bool | None = None, **options: Any) -> None:
        changes = {name: value for name, value in options.items() if value is not None}
        changed = replace(_options, **changes)
        self._before = _options, _execute
        _use(changed, _execute if execute is None else execute)

    def __enter__(self) -> configure:
        return self

    def __exit__(self, *exception: object) -> None:
        _use(*self._before)


def _use(options: Options, execute: bool) -> None:
    global _options, _execute
    _options, _execute = options, execute
    if active():
        ctypes.c_int.in_dll(hip_abi.runtime(), "rocke_execute").value = int(execute)

"""The constants of the timing model; gfx950_timing.json has them with their sources."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any


@functools.cache
def constants() -> dict[str, Any]:
    """Return the model's constants by name, without their sources."""
    text = Path(__file__).with_name("gfx950_timing.json").read_text(encoding="utf-8")
    return {name: entry["value"] for name, entry in json.loads(text).items()}

"""The timing model: what each instruction costs, and what a replay on the compute unit tells.

docs/timing_model.md says what the numbers can tell and what not.
"""

from rocke_cupy.emulator.timing.constants import constants
from rocke_cupy.emulator.timing.result import UNITS, Pace, Phase, Timing, phases

__all__ = ["UNITS", "Pace", "Phase", "Timing", "constants", "phases"]

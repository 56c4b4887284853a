"""Find in gfx950 code objects what would go wrong on hardware only.

`check` looks at a code object from any compiler or assembler; ``python -m rocke_cupy.emulator.lint
FILE`` prints what it finds. docs/errata.md explains the rules.
"""

from rocke_cupy.emulator.hazards.rules import RULES, Rule
from rocke_cupy.emulator.lint.findings import Finding
from rocke_cupy.emulator.lint.report import check

__all__ = ["RULES", "Finding", "Rule", "check"]

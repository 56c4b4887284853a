"""The environment variables by which a process finds its virtual device."""

ROOT = "ROCKE_EMULATOR_ROOT"
"""The virtual root; unset where there is no virtual device."""

PACKAGE = "ROCKE_EMULATOR_PACKAGE"
"""The folder with this package, for a Python that does not have it on its path."""

MEMORY = "ROCKE_EMULATOR_MEMORY"
SCHEDULE = "ROCKE_EMULATOR_SCHEDULE"
"""What launches start with: the options of the same names."""

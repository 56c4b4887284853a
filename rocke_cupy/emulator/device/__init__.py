"""The virtual device under CuPy: a folder that looks like ROCm, and launches from there."""

from rocke_cupy.emulator.device.settings import active, configure, reports

__all__ = ["active", "configure", "reports"]

"""A virtual MI355X: gfx950 machine code executed instruction by instruction.

`run` executes a kernel of a code object on NumPy arrays; ``python -m rocke_cupy.emulator SCRIPT``
runs a Python script on a virtual device. See docs/emulator.md.
"""

try:
    from rocke_cupy.emulator.execution.launch import launch
    from rocke_cupy.emulator.execution.memory import Buffer
    from rocke_cupy.emulator.execution.report import EmulationError, Race, Region, Report
    from rocke_cupy.emulator.execution.run import run
    from rocke_cupy.emulator.program import Kernel, Program, load
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"rocke_cupy.emulator needs {error.name}, which is not installed; install it with: "
        'pip install "rocke_cupy[emulator]"',
        name=error.name,
    ) from error

__all__ = [
    "Buffer",
    "EmulationError",
    "Kernel",
    "Program",
    "Race",
    "Region",
    "Report",
    "launch",
    "load",
    "run",
]

"""From a code object to instructions with their text, and to the records that the core executes."""

from rocke_cupy.emulator.program.code_object import Kernel
from rocke_cupy.emulator.program.program import Instruction, Program, load

__all__ = ["Instruction", "Kernel", "Program", "load"]

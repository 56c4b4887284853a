"""Start-up of a Python process with the virtual device, as its ``sitecustomize``.

Its folder comes first in PYTHONPATH. It hands over to the ``sitecustomize`` that would have run
without it.
"""

import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OUT_OF_MEMORY = 2  # of hipError_t


def _bypass_memory_pool(cupy: Any) -> None:
    """Give arrays allocations of their exact size, so that one byte past the end is out of bounds.

    CuPy's pool rounds up and puts several arrays into one allocation.
    """
    memory, runtime = cupy.cuda.memory, cupy.cuda.runtime

    def allocate(size: int) -> Any:
        try:
            return memory.MemoryPointer(memory.Memory(size), 0)
        except runtime.CUDARuntimeError as error:
            if error.status != _OUT_OF_MEMORY:
                raise
            free, total = runtime.memGetInfo()
            raise memory.OutOfMemoryError(size, total - free, total) from error

    cupy.cuda.set_allocator(allocate)


class _CupyHook:
    """A finder that does nothing but notice that CuPy gets imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "cupy":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("cupy")
        if spec is None or spec.loader is None:
            sys.meta_path.insert(0, self)
            return None
        execute = spec.loader.exec_module

        def execute_and_configure(module: ModuleType) -> None:
            execute(module)
            _bypass_memory_pool(module)

        setattr(spec.loader, "exec_module", execute_and_configure)  # noqa: B010 (a method)
        return spec


def _start() -> None:
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != own]
    package = os.environ.get("ROCKE_EMULATOR_PACKAGE")
    if package and package not in sys.path:
        sys.path.append(package)  # the runtime imports the package in whatever script runs
    sys.meta_path.insert(0, _CupyHook())
    this = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    sys.modules.setdefault("sitecustomize", this)


_start()

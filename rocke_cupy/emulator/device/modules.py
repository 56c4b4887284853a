"""Modules of the virtual device: code objects that are loaded, their kernels and variables."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from rocke_cupy.emulator.device import hip_abi as abi
from rocke_cupy.emulator.device.code_images import code_object_at
from rocke_cupy.emulator.program.code_object import CodeObjectError
from rocke_cupy.emulator.program.large_code import Loaded, load_module


@dataclass
class Module:
    """A loaded code object, and its kernels in the order of their numbers."""

    loaded: Loaded
    kernels: list[str]


_modules: dict[int, Module] = {}
_module_ids = itertools.count(1)


def module(identity: int) -> Module:
    """Return a loaded module by the number that HIP has for it."""
    return _modules[identity]


def load(image: int, result: Any) -> None:
    """Load the code object in the image at an address, and give out its number."""
    try:
        loaded = load_module(code_object_at(image))
    except CodeObjectError as error:
        raise abi.Refused(abi.INVALID_IMAGE, str(error)) from error
    result[0] = identity = next(_module_ids)
    _modules[identity] = Module(loaded, list(loaded.kernels))


def unload(identity: int) -> None:
    """Forget a module."""
    _modules.pop(identity, None)


def find_function(identity: int, name: bytes, info: Any) -> None:
    """Describe a kernel of a module."""
    found = _modules[identity]
    kernel = found.loaded.kernels.get(name.decode())
    if kernel is None:
        known = ", ".join(found.kernels[:8]) or "none"
        message = f"there is no kernel {name.decode()!r}; there are: {known}"
        raise abi.Refused(abi.NOT_FOUND, message)
    info[0] = abi.FunctionInfo(
        module=identity,
        kernel=found.kernels.index(name.decode()),
        max_threads=kernel.max_workgroup,
        static_lds=kernel.lds_size,
        scratch_bytes=kernel.scratch_size,
        vector_registers=kernel.vgprs,
    )


def find_global(identity: int, name: bytes, address: Any, size: Any) -> None:
    """Give the address and the size of a variable of a module."""
    try:
        address[0], size[0] = _modules[identity].loaded.symbol_address(name.decode())
    except KeyError:
        message = f"there is no variable {name.decode()!r} in the code object"
        raise abi.Refused(abi.NOT_FOUND, message) from None

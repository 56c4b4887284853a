"""The Python half of the virtual device: modules and launches that the HIP stand-in hands over.

The stand-in imports this module, in whatever process it runs, when it first needs it.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import itertools
import os
import traceback
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rocke_cupy.emulator import _hip_abi as abi
from rocke_cupy.emulator import device_libraries
from rocke_cupy.emulator.code_images import BadImage, code_object_at
from rocke_cupy.emulator.code_object import CodeObjectError, Kernel
from rocke_cupy.emulator.large_code import Loaded, load_module
from rocke_cupy.emulator.memory import Buffer
from rocke_cupy.emulator.options import Options
from rocke_cupy.emulator.progress import Progress
from rocke_cupy.emulator.report import EmulationError, Report
from rocke_cupy.emulator.run import launch as execute
from rocke_cupy.emulator.virtual_root import MEMORY_VARIABLE, ROOT_VARIABLE, SCHEDULE_VARIABLE

reports: deque[Report] = deque(maxlen=100)
"""The reports of the last launches, the newest last."""


_options = Options(
    memory=os.environ.get(MEMORY_VARIABLE) or Options.memory,
    schedule=os.environ.get(SCHEDULE_VARIABLE) or Options.schedule,
)
_execute = True


def active() -> bool:
    """Say whether this process runs with the virtual device."""
    return ROOT_VARIABLE in os.environ


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

    def __init__(self, *, execute: bool | None = None, **options: Any):
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
    if _library is not None:
        ctypes.c_int.in_dll(_library, "rocke_execute").value = int(execute)


class _Refused(Exception):  # noqa: N818 (not an error of ours: it becomes a HIP status)
    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


@dataclass
class _Module:
    loaded: Loaded
    kernels: list[str]


_modules: dict[int, _Module] = {}
_module_ids = itertools.count(1)


def _load_module(image: int, module: Any) -> None:
    try:
        code = code_object_at(image)
        loaded = load_module(code)
    except BadImage as error:
        raise _Refused(error.status, str(error)) from error
    except CodeObjectError as error:
        raise _Refused(abi.INVALID_IMAGE, str(error)) from error
    module[0] = identity = next(_module_ids)
    _modules[identity] = _Module(loaded, list(loaded.kernels))


def _unload_module(module: int) -> None:
    _modules.pop(module, None)


def _find_function(module: int, name: bytes, info: Any) -> None:
    found = _modules[module]
    kernel = found.loaded.kernels.get(name.decode())
    if kernel is None:
        known = ", ".join(found.kernels[:8]) or "none"
        raise _Refused(abi.NOT_FOUND, f"there is no kernel {name.decode()!r}; there are: {known}")
    info[0] = abi.FunctionInfo(
        module=module,
        kernel=found.kernels.index(name.decode()),
        max_threads=kernel.max_workgroup,
        static_lds=kernel.lds_size,
        scratch_bytes=kernel.scratch_size,
        vector_registers=kernel.vgprs,
    )


def _find_global(module: int, name: bytes, address: Any, size: Any) -> None:
    try:
        address[0], size[0] = _modules[module].loaded.symbol_address(name.decode())
    except KeyError:
        message = f"there is no variable {name.decode()!r} in the code object"
        raise _Refused(abi.NOT_FOUND, message) from None


def _launch(pointer: Any) -> None:
    launch = pointer.contents
    module = _modules[launch.module]
    name = module.kernels[launch.kernel]
    program = module.loaded.program_of(name)
    kernel = program.kernels[name]
    kernarg = _kernarg(kernel, launch)
    with Progress(name) as progress:
        report = execute(
            program,
            name,
            tuple(launch.grid),
            tuple(launch.block),
            kernarg,
            _buffers(launch.device, kernel, kernarg),
            shared_mem=launch.shared_bytes,
            stack_size=launch.stack_bytes,
            progress=progress,
            **vars(_options),
        )
    reports.append(report)


def _kernarg(kernel: Kernel, launch: abi.LaunchRequest) -> bytes:
    """Return the kernel argument block, in which the hidden arguments are still empty."""
    block = bytearray(kernel.kernarg_size)
    explicit = kernel.explicit_arguments
    if launch.packed:
        size = min(launch.packed_bytes, len(block))
        block[:size] = ctypes.string_at(launch.packed, size)
    elif launch.arguments:
        for argument, source in zip(explicit, launch.arguments, strict=False):
            value = ctypes.string_at(source, argument.size)
            block[argument.offset : argument.offset + argument.size] = value
    elif explicit:
        raise _Refused(abi.INVALID_VALUE, f"the launch has no arguments, {len(explicit)} expected")
    return bytes(block)


_buffer_cache: dict[int, tuple[int, list[Buffer]]] = {}


def _buffers(device: int, kernel: Kernel, kernarg: bytes) -> list[Buffer]:
    """Return the memory that a launch may touch, named by the arguments that point to it."""
    version = _library.rocke_allocations_version(device)
    if _buffer_cache.get(device, (None,))[0] != version:
        _buffer_cache[device] = _list_allocations(device)
    buffers = list(_buffer_cache[device][1])
    starts = [buffer.address for buffer in buffers]
    for number, argument in enumerate(kernel.arguments):
        if argument.kind != "global_buffer":
            continue
        address = int.from_bytes(kernarg[argument.offset : argument.offset + 8], "little")
        index = bisect_right(starts, address) - 1
        if index >= 0 and address < starts[index] + buffers[index].size:
            buffers[index] = replace(buffers[index], name=f"argument {number}")
    return buffers


def _list_allocations(device: int) -> tuple[int, list[Buffer]]:
    version = ctypes.c_uint64()
    capacity = _library.rocke_allocations(None, 0, device, version)
    while True:
        table = (abi.Allocation * max(1, capacity))()
        count = _library.rocke_allocations(table, capacity, device, version)
        if count <= capacity:
            break
        capacity = count
    buffers = [
        Buffer(entry.address, entry.size, f"allocated at {entry.address:#x}")
        for entry in table[:count]
    ]
    return version.value, buffers


def _guard(function: Callable[..., None]) -> Callable[..., int]:
    """Make a callback of `function`: exceptions become a HIP status with a sentence.

    Ctrl-C is passed on as such; the stand-in has it raised in the script after its call.
    """

    @functools.wraps(function)
    def call(*arguments: Any) -> int:
        try:
            return _attempt(function, arguments)
        except KeyboardInterrupt:
            return abi.INTERRUPTED

    return call


def _attempt(function: Callable[..., None], arguments: tuple[Any, ...]) -> int:
    try:
        function(*arguments)
        return abi.SUCCESS
    except KeyboardInterrupt:
        raise
    except _Refused as error:
        status, message = error.status, str(error)
    except EmulationError as error:
        status, message = abi.LAUNCH_FAILURE, str(error)
    except ValueError as error:
        status, message = abi.INVALID_VALUE, str(error)
    except NotImplementedError as error:
        status, message = abi.NOT_SUPPORTED, str(error)
    except BaseException as error:
        traceback.print_exc()
        status, message = abi.UNKNOWN, f"the virtual device failed: {error!r}"
    _library.rocke_set_message(message.encode())
    return status


def _register(root: str) -> tuple[ctypes.CDLL, abi.Callbacks]:
    library = abi.load(Path(root))
    functions = {
        "load_module": _guard(_load_module),
        "unload_module": _guard(_unload_module),
        "find_function": _guard(_find_function),
        "find_global": _guard(_find_global),
        "launch": _guard(_launch),
        "matrix_product": _guard(device_libraries.matrix_product),
        "random_seed": _guard(device_libraries.random_seed),
        "random_draw": _guard(device_libraries.random_draw),
    }
    types = dict(abi.Callbacks._fields_)
    callbacks = abi.Callbacks(**{name: types[name](f) for name, f in functions.items()})
    library.rocke_register(callbacks)
    # CuPy unloads modules while the interpreter is taken down, when callbacks would crash.
    atexit.register(library.rocke_unregister)
    return library, callbacks


_library: Any = None
if active():
    _library, _callbacks = _register(os.environ[ROOT_VARIABLE])

"""The Python half of the virtual device: what the HIP stand-in hands over.

The stand-in imports this module, in whatever process it runs, when it first needs it.
"""

from __future__ import annotations

import atexit
import functools
import traceback
from collections.abc import Callable
from typing import Any

from rocke_cupy.emulator.device import hip_abi as abi
from rocke_cupy.emulator.device import math_libraries, modules
from rocke_cupy.emulator.device.launches import launch
from rocke_cupy.emulator.execution.report import EmulationError


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
    except abi.Refused as error:
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
    abi.runtime().rocke_set_message(message.encode())
    return status


def _register() -> abi.Callbacks:
    functions = {
        "load_module": _guard(modules.load),
        "unload_module": _guard(modules.unload),
        "find_function": _guard(modules.find_function),
        "find_global": _guard(modules.find_global),
        "launch": _guard(launch),
        "matrix_product": _guard(math_libraries.matrix_product),
        "random_seed": _guard(math_libraries.random_seed),
        "random_draw": _guard(math_libraries.random_draw),
    }
    types = dict(abi.Callbacks._fields_)
    callbacks = abi.Callbacks(**{name: types[name](f) for name, f in functions.items()})
    abi.runtime().rocke_register(callbacks)
    # CuPy unloads modules while the interpreter is taken down, when callbacks would crash.
    atexit.register(abi.runtime().rocke_unregister)
    return callbacks


_callbacks = _register()

"""Compile one source with hipRTC: run as a script, in a process of its own.

hipRTC ends its process on some bad options, and two versions of it cannot share one. The request
comes as JSON on standard input; ``code`` and ``log`` are written to the folder that it names.
"""

import ctypes
import json
import pathlib
import sys


def main() -> int:
    """Compile what standard input asks for."""
    request = json.load(sys.stdin)
    folder = pathlib.Path(request["folder"])
    library = ctypes.CDLL(request["library"])
    library.hiprtcGetErrorString.restype = ctypes.c_char_p
    program = ctypes.c_void_p()
    _check(
        library,
        library.hiprtcCreateProgram(
            ctypes.byref(program),
            request["source"].encode(),
            request["name"].encode(),
            0,
            None,
            None,
        ),
    )
    options = [option.encode() for option in request["options"]]
    result = library.hiprtcCompileProgram(
        program, len(options), (ctypes.c_char_p * max(1, len(options)))(*options)
    )
    log = _output(library, program, "ProgramLog").rstrip(b"\0")
    if result:
        log += b"\n" + library.hiprtcGetErrorString(result)
    (folder / "log").write_bytes(log)
    if result:
        return 1
    (folder / "code").write_bytes(_output(library, program, "Code"))
    return 0


def _output(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"hiprtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    if size.value:
        _check(library, getattr(library, f"hiprtcGet{what}")(program, buffer))
    return buffer.raw


def _check(library: ctypes.CDLL, result: int) -> None:
    if result:
        raise SystemExit(f"hipRTC: {library.hiprtcGetErrorString(result).decode()}")


if __name__ == "__main__":
    sys.exit(main())

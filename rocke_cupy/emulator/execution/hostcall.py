"""The host's side of a kernel's calls: printf, and the text of failed asserts."""

from __future__ import annotations

import ctypes
import re
import sys
from typing import Any

import numpy as np

from rocke_cupy.emulator.core.gfx950 import LANES
from rocke_cupy.emulator.core.layouts import SERVE
from rocke_cupy.emulator.core.library import library
from rocke_cupy.emulator.execution.memory import Buffer

ARGUMENT = "hidden_hostcall_buffer"
"""The kernel argument that points to the buffer of the calls."""

_PRINTF = 2  # the service's number
_BEGIN, _END = 1, 2  # flags of a part of a message

_SPECIFIER = re.compile(rb"%(?:%|[^%a-zA-Z]*(?:hh|h|ll|l|j|z|t|L)?([diouxXcfFeEgGaAspn]))")
_FLOATS, _TEXT, _NOTHING = b"fFeEgGaA", b"s", b"n"


class HostCalls:
    """What a launch's kernel may call on the host, and what it has printed.

    Text for standard output is written as it comes, as HIP does. Text for standard error is that
    of asserts, which trap afterwards: it is kept, in `complaints`.

    Parameters
    ----------
    waves : int
        The most that run at once: each may have a packet on its way.
    """

    def __init__(self, waves: int) -> None:
        core = library()
        packets = 1 << max(1, (waves - 1).bit_length())
        self._memory = np.zeros(core.rocke_hostcall_bytes(packets), np.uint8)
        self.address = self._memory.ctypes.data
        core.rocke_hostcall_start(self.address, packets)
        self.buffer = Buffer(self.address, self._memory.size, "host calls", of_host=True)
        self.serve = SERVE(self._serve)
        self.error: BaseException | None = None
        self.complaints: list[str] = []
        self._messages: dict[int, list[int]] = {}
        self._numbered = 0

    def _serve(self, service: int, lanes: int, payload: Any) -> int:
        try:
            if service != _PRINTF:
                raise NotImplementedError(
                    f"the kernel calls service {service} of the host: only printf is modelled"
                )
            for lane in range(LANES):
                if lanes >> lane & 1:
                    payload[lane][0] = self._receive(payload[lane][0], payload[lane][1:])
        except BaseException as error:  # it cannot pass through the core
            self.error = error
            return 1
        return 0

    def _receive(self, descriptor: int, words: list[int]) -> int:
        """Take a part of a message: flags, three bits of length from bit 5, a number from bit 8.

        Returns
        -------
        int
            The descriptor for the next part; after the last one, the characters printed.
        """
        if descriptor & _BEGIN:
            self._numbered += 1
            self._messages[self._numbered] = []
            descriptor = descriptor & 0xFF & ~_BEGIN | self._numbered << 8
        number = descriptor >> 8
        self._messages[number] += words[: descriptor >> 5 & 7]
        if not descriptor & _END:
            return descriptor
        to_standard_error, *rest = self._messages.pop(number)
        printed = format_printf(np.array(rest, np.uint64).tobytes())
        text = printed.decode("utf-8", "replace")
        if to_standard_error & 1:
            self.complaints.append(text.rstrip("\n"))
        else:
            sys.stdout.write(text)
        return len(printed)


_snprintf: Any = ctypes.CDLL(None).snprintf


def format_printf(message: bytes) -> bytes:
    """Format what a kernel's printf sent.

    Parameters
    ----------
    message : bytes
        The format, then the arguments. Texts end with a zero and fill up eight bytes; numbers and
        pointers take eight, floating-point ones as double.
    """
    template, position = _text_at(message, 0)
    printed, end = b"", 0
    for found in _SPECIFIER.finditer(template):
        printed += template[end : found.start()]
        end = found.end()
        conversion = found[1]
        if conversion is None:
            printed += b"%"
            continue
        if position >= len(message):
            return printed  # fewer arguments than the format has
        widths = found[0].count(b"*")
        arguments = [_word(message, position + 8 * k) for k in range(widths)]
        position += 8 * widths
        if conversion in _TEXT:
            text, position = _text_at(message, position)
            arguments.append(ctypes.c_char_p(text))
        else:
            arguments.append(
                _word(
                    message, position, ctypes.c_double if conversion in _FLOATS else ctypes.c_uint64
                )
            )
            position += 8
        if conversion not in _NOTHING:
            printed += _by_c(found[0], arguments)
    return printed + template[end:]


def _word(message: bytes, position: int, kind: Any = ctypes.c_int) -> Any:
    return kind.from_buffer_copy(message, position)


def _text_at(message: bytes, position: int) -> tuple[bytes, int]:
    end = message.index(b"\0", position)
    return message[position:end], position + (end - position) // 8 * 8 + 8


def _by_c(specifier: bytes, arguments: list[Any]) -> bytes:
    size = _snprintf(None, ctypes.c_size_t(0), specifier, *arguments)
    printed = ctypes.create_string_buffer(size + 1)
    _snprintf(printed, ctypes.c_size_t(size + 1), specifier, *arguments)
    return printed.raw[:size]

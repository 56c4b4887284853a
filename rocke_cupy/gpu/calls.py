"""Attention on CuPy arrays: a checked call gets its plan, an equal one repeats it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from ..rules.arrays import is_cupy
from ..rules.call import Call, dense_lengths, varlen_lengths
from ..rules.lengths import Lengths
from ..rules.options import Options
from .lengths import on_device, rows_to_launch
from .prepare import AnyPlan, prepare

_KEPT_CALLS = 4096
"""A decoding loop has a new length, so a new plan, at each step: old ones must not pile up."""

_KEPT_LENGTHS = 64
"""Longest lengths, and numbers of sequences, that a call on packed sequences has plans for."""

_WINDOW = Options._fields.index("window_size")

Known = Callable[..., Any]
"""How to repeat a checked call: takes q, k, v, out, the addresses of q, k and v, and lengths."""


class _Kept(threading.local):
    """The checked calls of a thread. Plans hold the arguments of a launch, so none is shared."""

    def __init__(self) -> None:
        self.calls: dict[Hashable, Known] = {}
        self.latest: tuple[Hashable, Known | None] = (None, None)
        # Of CuPy, once an array of it was seen: looked up once, not in each call.
        self.array: Any = None
        self.device: Any = None
        self.current_device: Any = None

    def remember_cupy(self) -> None:
        """Take from CuPy what each call needs."""
        import cupy

        self.array, self.device = cupy.ndarray, cupy.cuda.Device
        self.current_device = cupy.cuda.runtime.getDevice

    def enter(self, key: Hashable, known: Known) -> None:
        """Keep how to repeat a call that was checked."""
        if len(self.calls) >= _KEPT_CALLS:
            self.calls.clear()
        self.calls[key] = known
        self.latest = (key, known)


kept = _Kept()


class Unknown:
    """Stands for the result of a call of which no equal one was checked.

    Parameters
    ----------
    key : hashable
        What to keep the call under; None if it cannot be kept, as one on NumPy arrays.
    """

    __slots__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        self.key = key


def repeat(q: Any, k: Any, v: Any, out: Any, lengths: Any, options: tuple[Any, ...]) -> Any:
    """Carry out a call if an equal one was checked before, else return an `Unknown`.

    It is looked for before anything is checked, so its key holds whatever the checks look at: of
    options the classes too, since True == 1 == 1.0, and a dtype equals all its names. The values
    of lengths are checked each time.

    Parameters
    ----------
    q, k, v, out : object
        What the caller gave.
    lengths : object
        What the caller gave, None if the call carries none.
    options : tuple
        The fields of `Options` that the public function has, unchecked.
    """
    array = kept.array
    # A wrapper around an array has the array's attributes, yet is not one.
    if (
        type(q) is not array
        or type(k) is not array
        or type(v) is not array
        or (out is not None and type(out) is not array)
    ):
        if array is None and is_cupy(q):
            kept.remember_cupy()
            return repeat(q, k, v, out, lengths, options)
        return Unknown(None)
    memory_q, memory_k, memory_v, window = q.data, k.data, v.data, options[_WINDOW]
    at_q, at_k, at_v = memory_q.ptr, memory_k.ptr, memory_v.ptr
    try:
        # Classes come before values: to compare numbers of two classes may overflow. Strides take
        # CuPy as long as all else of an array; those of a contiguous one follow from its shape.
        key = (
            q.shape, q._c_contiguous or q.strides, q.dtype, memory_q.device_id, at_q % 16,
            k.shape, k._c_contiguous or k.strides, k.dtype, memory_k.device_id, at_k % 16,
            v.shape, v._c_contiguous or v.strides, v.dtype, memory_v.device_id, at_v % 16,
            None if out is None
            else (
                out.shape, out._c_contiguous or out.strides, out.dtype, out.data.device_id,
                out.data.ptr % 16,
            ),
            lengths is None, tuple(map(type, options)), window[0].__class__, window[1].__class__,
            options,
        )  # fmt: skip
        # A model's layers make equal calls in a row; to compare is half the cost of to hash.
        latest = kept.latest
        if key != latest[0]:
            latest = kept.latest = (key, kept.calls.get(key))
    # A window without two ends, or an array among the options.
    except (LookupError, TypeError, ValueError):
        return Unknown(None)
    known = latest[1]
    if known is None:
        return Unknown(key)
    if kept.current_device() != memory_q.device_id:
        with kept.device(memory_q.device_id):
            return known(q, k, v, out, at_q, at_k, at_v, lengths)
    return known(q, k, v, out, at_q, at_k, at_v, lengths)


def attend(call: Call, options: Options, key: Hashable) -> Any:
    """Carry out a checked call on the device of its arrays, and keep how to repeat it."""
    with kept.device(call.q.device.id):
        if call.problem.empty:
            return _empty(call)
        result, known = _attend(call, options)
    if key is not None:
        kept.enter(key, known)
    return result


def _attend(call: Call, options: Options) -> tuple[Any, Known]:
    q, k, v, out = call.q, call.k, call.v, call.out
    at = (q.data.ptr, k.data.ptr, v.data.ptr)
    if call.problem.varlen:
        varlen = _Varlen(call, options)
        return varlen.launch(q, k, v, out, *at, call.lengths), varlen.run
    plan = prepare(call.problem, call.axes, q, k, v, out, return_lse=call.return_lse)
    result = plan.run(q, k, v, out, *at, on_device(call.lengths))
    return result, _WithKeyLengths(plan, call, options).run if call.lengths.given else plan.run


class _WithKeyLengths:
    """A call whose numbers of keys are checked at each repetition."""

    def __init__(self, plan: AnyPlan, call: Call, options: Options) -> None:
        self._plan, self._problem, self._options = plan, call.problem, options

    def run(
        self, q: Any, k: Any, v: Any, out: Any, at_q: int, at_k: int, at_v: int, kv_lens: Any
    ) -> Any:
        lengths = dense_lengths(self._problem, q, out, kv_lens, self._options)
        on_gpu = on_device(lengths)
        return self._plan.run(q, k, v, out, at_q, at_k, at_v, on_gpu)


class _Varlen:
    """A call on packed sequences, with a plan for each longest length and number of sequences."""

    def __init__(self, call: Call, options: Options) -> None:
        self._problem, self._axes, self._options = call.problem, call.axes, options
        self._return_lse = call.return_lse
        self._plans: dict[tuple[int, int], AnyPlan] = {}

    def run(
        self, q: Any, k: Any, v: Any, out: Any, at_q: int, at_k: int, at_v: int, starts: Any
    ) -> Any:
        starts_q, starts_k = starts
        lengths = varlen_lengths(self._problem, q, out, starts_q, starts_k, self._options)
        return self.launch(q, k, v, out, at_q, at_k, at_v, lengths)

    def launch(
        self, q: Any, k: Any, v: Any, out: Any, at_q: int, at_k: int, at_v: int, lengths: Lengths
    ) -> Any:
        """Run with lengths that were checked."""
        rows = rows_to_launch(lengths, q.shape[0])
        plan = self._plans.get((lengths.entries, rows))
        if plan is None:
            # The rows past the last sequence are an entry too; see find_sequence in the kernel.
            problem = replace(self._problem, batch=lengths.entries + 1, seqlen_q=rows)
            plan = prepare(problem, self._axes, q, k, v, out, return_lse=self._return_lse)
            if len(self._plans) >= _KEPT_LENGTHS:
                self._plans.clear()
            self._plans[lengths.entries, rows] = plan
        on_gpu = on_device(lengths)
        return plan.run(q, k, v, out, at_q, at_k, at_v, on_gpu)


def _empty(call: Call) -> Any:
    """Return results without any element, and launch nothing."""
    q, out = call.q, call.out
    out = kept.array(q.shape, q.dtype) if out is None else out
    lse_shape = call.axes.lse_shape(q.shape)
    return (out, kept.array(lse_shape, np.float32)) if call.return_lse else out

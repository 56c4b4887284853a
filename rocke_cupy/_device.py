"""Attention on CuPy arrays: check a new call, read its lengths, find or make its plan, run it."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

import numpy as np

from . import _checks as checks
from . import _lengths as lengths
from ._plan import DENSE_AXES, PACKED_AXES, Plan
from ._prepare import SteppedPlan, prepare

_KEPT_PLANS = 4096
"""A decoding loop has a new length, so a new plan, at each step: old ones must not pile up."""

AnyPlan = Plan | SteppedPlan


class _Kept(threading.local):
    """The plans of this thread: a plan holds the arguments of its launch, so it is not shared."""

    def __init__(self) -> None:
        self.plans: dict[Hashable, AnyPlan] = {}
        self.latest: tuple[Hashable, AnyPlan | None] = (None, None)

    def enter(self, key: Hashable, plan: AnyPlan) -> None:
        """Keep the plan of a call that was checked."""
        if len(self.plans) >= _KEPT_PLANS:
            self.plans.clear()
        self.plans[key] = plan
        self.latest = (key, plan)


kept = _Kept()


def find_plan(
    q: Any, k: Any, v: Any, out: Any, window: Any, flags: tuple[Any, ...]
) -> tuple[Hashable, AnyPlan | None]:
    """Return the key of a call, None if the arrays are not CuPy's, and its plan if there is one.

    A repeated call is looked up before anything is checked, so the key holds whatever the checks
    look at.
    """
    try:
        at_q, at_k, at_v = q.data, k.data, v.data
        key = (
            q.shape, q.strides, q.dtype, at_q.device_id,
            k.shape, k.strides, k.dtype, at_k.device_id,
            v.shape, v.strides, v.dtype, at_v.device_id,
            at_q.ptr % 16, at_k.ptr % 16, at_v.ptr % 16,
            None if out is None
            else (out.shape, out.strides, out.dtype, out.data.device_id, out.data.ptr % 16),
            window[0].__class__, window[1].__class__, window, flags,
        )  # fmt: skip
        # A model's layers make equal calls in a row; to compare is half the cost of to hash.
        if key != kept.latest[0]:
            kept.latest = (key, kept.plans.get(key))
        return kept.latest
    # NumPy's data is a buffer, which not all dtypes have; a list is not hashable.
    except (AttributeError, LookupError, TypeError, ValueError):
        return None, None


def dense(
    key: Hashable,
    q: Any,
    k: Any,
    v: Any,
    *,
    softmax_scale: Any,
    causal: Any,
    window_size: Any,
    kv_lens: Any,
    causal_alignment: Any,
    layout: Any,
    compute_dtype: Any,
    out: Any,
    return_lse: Any,
    check: Any,
) -> Any:
    """`rocke_cupy.attention` for a call whose plan is not known."""
    checks.check_layout(layout)
    checks.check_shapes(q, k, v, layout)
    checks.check_flags(return_lse=return_lse, check=check)
    axes = DENSE_AXES[layout]
    problem = checks.Problem(
        batch=q.shape[0],
        seqlen_q=q.shape[axes.token],
        seqlen_kv=k.shape[axes.token],
        num_query_heads=q.shape[axes.head],
        num_kv_heads=k.shape[axes.head],
        head_dim=q.shape[-1],
        dtype=q.dtype,
        compute_dtype=checks.check_dtypes(q, k, v, compute_dtype, oracle=False),
        scale=checks.check_scale(softmax_scale, q.shape[-1]),
        masks=checks.check_masks(causal, window_size, causal_alignment),
        key_lengths=kv_lens is not None,
    )
    if out is not None:
        checks.check_out(out, q)
    checks.check_devices(q=q, k=k, v=v, out=out)
    if problem.empty:
        if kv_lens is not None:
            _host_key_lengths(kv_lens, problem.batch, problem.seqlen_kv, check)
        return _empty(
            q, out, (problem.batch, problem.num_query_heads, problem.seqlen_q), return_lse
        )
    plan = prepare(problem, axes, q, k, v, out, return_lse=bool(return_lse))
    if kv_lens is not None:
        kv_lens = key_lengths(kv_lens, plan, out, check)
    result = plan.run(q, k, v, out, kv_lens)
    if key is not None:
        kept.enter(key, plan)
    return result


def key_lengths(kv_lens: Any, plan: AnyPlan, out: Any, check: Any) -> Any:
    """Return ``kv_lens`` as the kernel takes it, after the checks."""
    given, on_host = _host_key_lengths(kv_lens, plan.batch, plan.seqlen_kv, check)
    return on_device(given, on_host, plan.device_id, "kv_lens", out)


def _host_key_lengths(
    kv_lens: Any, batch: int, seqlen_kv: int, check: Any
) -> tuple[Any, np.ndarray | None]:
    given = lengths.length_array("kv_lens", kv_lens)
    lengths.check_length_array("kv_lens", given, batch, "one length a batch entry")
    on_host = read(given) if check else None
    if on_host is not None:
        lengths.check_kv_lens(on_host, seqlen_kv)
    return given, on_host


def packed(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    *,
    max_seqlen_q: Any,
    max_seqlen_k: Any,
    softmax_scale: Any,
    causal: Any,
    window_size: Any,
    causal_alignment: Any,
    compute_dtype: Any,
    out: Any,
    return_lse: Any,
    check: Any,
) -> Any:
    """`rocke_cupy.attention_varlen` on CuPy arrays."""
    checks.check_shapes(q, k, v, None)
    checks.check_flags(return_lse=return_lse, check=check)
    starts_q = lengths.length_array("cu_seqlens_q", cu_seqlens_q)
    starts_k = lengths.length_array("cu_seqlens_k", cu_seqlens_k)
    lengths.check_packing(starts_q, starts_k)
    longest = lengths.check_max_seqlens(max_seqlen_q, max_seqlen_k)
    rounding = checks.check_dtypes(q, k, v, compute_dtype, oracle=False)
    scale = checks.check_scale(softmax_scale, q.shape[-1])
    masks = checks.check_masks(causal, window_size, causal_alignment)
    if out is not None:
        checks.check_out(out, q)
    checks.check_devices(q=q, k=k, v=v, out=out)
    host_q = read(starts_q) if check or longest[0] is None else None
    host_k = read(starts_k) if check else None
    if host_q is not None and host_k is not None:
        lengths.check_packed_values(host_q, host_k, q.shape[0], k.shape[0], longest)
    if 0 in (q.shape[0], q.shape[1]):
        return _empty(q, out, (q.shape[1], q.shape[0]), return_lse)
    problem = checks.Problem(
        # One more entry than sequences: the rows past the last one, which see no key.
        batch=len(starts_q),
        seqlen_q=rows_to_launch(longest[0], host_q, q.shape[0]),
        seqlen_kv=k.shape[0] if longest[1] is None else min(longest[1], k.shape[0]),
        num_query_heads=q.shape[1],
        num_kv_heads=k.shape[1],
        head_dim=q.shape[-1],
        dtype=q.dtype,
        compute_dtype=rounding,
        scale=scale,
        masks=masks,
        varlen=True,
    )
    plan = prepare(problem, PACKED_AXES, q, k, v, out, return_lse=bool(return_lse))
    return plan.run(
        q, k, v, out,
        cu_seqlens_q=on_device(starts_q, host_q, plan.device_id, "cu_seqlens_q", out),
        cu_seqlens_k=on_device(starts_k, host_k, plan.device_id, "cu_seqlens_k", out),
    )  # fmt: skip


def rows_to_launch(longest: int | None, starts_q: np.ndarray | None, tokens: int) -> int:
    """Return for how many rows of each entry of a packed batch workgroups are launched.

    Every sequence needs as many as it has. The last entry, the rows past the last sequence, does
    with any number, since its workgroups stride over them. Those cost a workgroup in each entry,
    so they get their share of the entries and no more.

    Parameters
    ----------
    longest : int, optional
        The longest sequence, by the caller's word.
    starts_q : numpy.ndarray, optional
        The boundaries, if they have been read.
    tokens : int
    """
    if starts_q is not None:
        spare = tokens - int(starts_q[-1])
        return max(lengths.longest_sequence(starts_q), -(-spare // len(starts_q)), 1)
    return tokens if longest is None else max(min(longest, tokens), 1)


def read(array: Any) -> np.ndarray:
    """Return a host copy of a device array, or the host array itself."""
    if checks.is_cupy(array):
        import cupy

        return cupy.asnumpy(array)
    return array


def on_device(array: Any, on_host: np.ndarray | None, device_id: int, name: str, out: Any) -> Any:
    """Return lengths as a contiguous int32 array on a device, as the kernels read them.

    They are read while ``out`` is written, so the two may not overlap.
    """
    import cupy

    if checks.is_cupy(array):
        if array.device.id != device_id:
            raise ValueError(
                f"q is on device {device_id} and {name} on device {array.device.id}: all must be "
                "on one"
            )
        if out is not None and cupy.may_share_memory(out, array):
            checks.check_overlap(out, **{name: array})
        if array.dtype == np.int32 and array.flags.c_contiguous:
            return array
    # CuPy's own cast would compile a kernel, which takes longer than the way over the host.
    with cupy.cuda.Device(device_id):
        return cupy.asarray((read(array) if on_host is None else on_host).astype(np.int32))


def _empty(q: Any, out: Any, lse_shape: tuple[int, ...], return_lse: Any) -> Any:
    """Return results without any element, and launch nothing."""
    import cupy

    with cupy.cuda.Device(q.device.id):
        out = cupy.ndarray(q.shape, q.dtype) if out is None else out
        return (out, cupy.ndarray(lse_shape, np.float32)) if return_lse else out

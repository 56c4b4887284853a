"""Checked lengths as the kernels read them, and what of a launch depends on their values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..rules.arrays import host_copy, is_cupy
from ..rules.lengths import Lengths, longest_sequence


class DeviceLengths(NamedTuple):
    """Contiguous int32 arrays on the device, None for those that a call does not have."""

    kv_lens: Any
    starts_q: Any
    starts_k: Any


def on_device(lengths: Lengths) -> DeviceLengths | None:
    """Return lengths where the kernels read them, on the current device."""
    if not lengths.given:
        return None
    kv_lens = _on_device(lengths, "kv_lens") if "kv_lens" in lengths.given else None
    starts = [_on_device(lengths, n) for n in lengths.given if n != "kv_lens"]
    return DeviceLengths(kv_lens, *(starts or (None, None)))


def _on_device(lengths: Lengths, name: str) -> Any:
    array = lengths.given[name]
    # The kernels take them at any byte.
    if is_cupy(array) and array.dtype == np.int32 and array.flags.c_contiguous:
        return array
    import cupy

    # CuPy's own cast would compile a kernel, which takes longer than the way over the host.
    on_host = lengths.on_host.get(name)
    on_host = host_copy(array) if on_host is None else on_host
    return cupy.asarray(on_host.astype(np.int32))


def rows_to_launch(lengths: Lengths, tokens: int) -> int:
    """Return for how many rows of each entry of a packed batch workgroups are launched.

    Every sequence needs as many as it has. The last entry, the rows past the last sequence, does
    with any number, since its workgroups stride over them. Those cost a workgroup in each entry,
    so they get their share of the entries and no more.
    """
    starts_q = lengths.on_host.get("cu_seqlens_q")
    if starts_q is not None:
        spare = tokens - int(starts_q[-1])
        return max(longest_sequence(starts_q), -(-spare // len(starts_q)), 1)
    return tokens if lengths.longest_q is None else max(min(lengths.longest_q, tokens), 1)

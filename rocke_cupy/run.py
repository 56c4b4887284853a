"""Launching the kernel of a given spec on CuPy arrays."""

from __future__ import annotations

from typing import Any

from .arch import ARCH
from .dense import supports_attention_dense
from .gpu.layout import Layout
from .gpu.lengths import on_device, rows_to_launch
from .gpu.prepare import AnyPlan, bind, why_not
from .rules.arrays import check_devices, check_library, check_out_memory
from .rules.call import Problem
from .rules.dtypes import FLOAT32
from .rules.lengths import Lengths, check_boundaries, check_key_lengths
from .rules.numbers import check_flags, check_scale
from .rules.shapes import DENSE_AXES, VARLEN_AXES
from .spec import AttentionDenseSpec


def run_attention_dense(
    *,
    spec: AttentionDenseSpec,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    scale: float,
    cu_seqlens_q: Any = None,
    cu_seqlens_kv: Any = None,
    kv_lens: Any = None,
    return_lse: bool = False,
    check: bool = True,
    arch: str = ARCH,
) -> Any:
    """Launch the kernel of a spec on CuPy's current stream; it is compiled at its first use.

    Parameters
    ----------
    spec : AttentionDenseSpec
        The shape, and the kernel's choices.
    q : cupy.ndarray, (batch, seqlen_q, num_query_heads, head_size)
        With ``spec.varlen``, packed: (tokens, num_query_heads, head_size).
    k, v : cupy.ndarray, (batch, seqlen_kv, num_kv_heads, head_size)
        With ``spec.varlen``, packed: (tokens, num_kv_heads, head_size).
    out : cupy.ndarray
        Where to store the result: shape of `q`, float32 with ``spec.float32_out``.
    scale : float
        Factor of the scores.
    cu_seqlens_q, cu_seqlens_kv : int32 array, (batch + 1,)
        Boundaries of the packed sequences; given if and only if ``spec.varlen``.
    kv_lens : int32 array, (batch,)
        Keys of each batch entry; given if and only if ``spec.key_lengths``.
    return_lse : bool
        Also return the LSE, as `rocke_cupy.attention` does.
    check : bool
        Read the lengths from the device and refuse bad ones. Without this check, they and
        sequences longer than the spec says are undefined behaviour.
    arch : str
        Name of the GPU's architecture.

    Returns
    -------
    out : cupy.ndarray
        The array that was given.
    lse : cupy.ndarray
        Only with `return_lse`.

    Raises
    ------
    NotImplementedError
        If there is no kernel for the spec.
    ValueError, TypeError
        If the arrays are not what the spec says.

    Examples
    --------
    >>> import cupy, rocke_cupy
    >>> spec = rocke_cupy.AttentionDenseSpec(1, 256, 64, 2, 1, 64, dtype="fp16")
    >>> q, out = (cupy.zeros((1, 256, 2, 64), "float16") for _ in range(2))
    >>> k = cupy.zeros((1, 64, 1, 64), "float16")
    >>> rocke_cupy.run_attention_dense(spec=spec, q=q, k=k, v=k, out=out, scale=0.125) is out
    True
    """
    supported, why = supports_attention_dense(spec, arch=arch)
    if not supported:
        raise NotImplementedError(f"no kernel for this spec: {why}")
    if not check_library(q=q, k=k, v=v, out=out):
        raise TypeError("q must be a cupy.ndarray: rocke_cupy.attention takes NumPy arrays")
    check_devices(q=q, k=k, v=v, out=out)
    check_flags(return_lse=return_lse, check=check)
    _check_arrays(spec, q, k, v, out)
    lengths = _check_lengths(
        spec, {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_kv": cu_seqlens_kv}, kv_lens,
        q=q, out=out, tokens=(q.shape[0], k.shape[0]), check=check,
    )  # fmt: skip
    if spec.varlen:
        # The rows past the last sequence are an entry too; see find_sequence in the kernel.
        rows = rows_to_launch(lengths, q.shape[0])
        spec = spec.replace(batch=spec.batch + 1, seqlen_q=rows, ragged=True)
    factor = check_scale(scale, spec.head_size, "scale")
    with q.device:
        plan = _plan(spec, q, k, v, out, factor, return_lse)
        on_gpu = on_device(lengths)
        return plan.run(q, k, v, out, q.data.ptr, k.data.ptr, v.data.ptr, on_gpu)


def _check_arrays(spec: AttentionDenseSpec, q: Any, k: Any, v: Any, out: Any) -> None:
    head_dim = spec.head_size
    queries, keys = (spec.num_query_heads, head_dim), (spec.num_kv_heads, head_dim)
    for name, array, length, tail in (
        ("q", q, spec.seqlen_q, queries),
        ("k", k, spec.seqlen_kv, keys),
        ("v", v, spec.seqlen_kv, keys),
        ("out", out, spec.seqlen_q, queries),
    ):
        lead = array.shape[:1] if spec.varlen else (spec.batch, length)
        if array.shape != (*lead, *tail):
            says = (("tokens", *tail)) if spec.varlen else (*lead, *tail)
            raise ValueError(f"{name}.shape={array.shape} must be {says}, as the spec says")
        wide = name == "out" and spec.float32_out
        dtype = FLOAT32 if wide else spec.dtype_ir
        if array.dtype != dtype:
            raise TypeError(f"{name}.dtype={array.dtype} must be {dtype}, as the spec says")
    check_out_memory(out)


def _check_lengths(
    spec: AttentionDenseSpec,
    boundaries: dict[str, Any],
    kv_lens: Any,
    *,
    q: Any,
    out: Any,
    tokens: tuple[int, int],
    check: bool,
) -> Lengths:
    for name, starts in boundaries.items():
        if (starts is not None) != spec.varlen:
            raise ValueError(
                f"{name} must be given if and only if spec.varlen, which is {spec.varlen}"
            )
    if (kv_lens is not None) != spec.key_lengths:
        raise ValueError(
            f"kv_lens must be given if and only if spec.key_lengths, which is {spec.key_lengths}"
        )
    if not spec.varlen:
        return check_key_lengths(
            kv_lens, q=q, out=out, batch=spec.batch, seqlen_kv=spec.seqlen_kv, check=check
        )
    longest = {"spec.seqlen_q": spec.seqlen_q, "spec.seqlen_kv": spec.seqlen_kv}
    lengths = check_boundaries(boundaries, longest, q=q, out=out, tokens=tokens, check=check)
    if lengths.entries != spec.batch:
        raise ValueError(
            f"cu_seqlens_q.shape={lengths.given['cu_seqlens_q'].shape} must be "
            f"({spec.batch + 1},), one more than the spec's batch"
        )
    return lengths


def _plan(
    spec: AttentionDenseSpec, q: Any, k: Any, v: Any, out: Any, scale: float, return_lse: bool
) -> AnyPlan:
    axes = VARLEN_AXES if spec.varlen else DENSE_AXES["bshd"]
    arrays = {"q": q, "k": k, "v": v, "out": out}
    layouts = {name: Layout.of(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if reason := why_not(name, layouts[name], array.data.ptr, axes):
            raise ValueError(f"{name} must be as the kernel reads it: {reason}")
    problem = Problem(
        batch=spec.batch,
        seqlen_q=spec.seqlen_q,
        seqlen_kv=spec.seqlen_kv,
        num_query_heads=spec.num_query_heads,
        num_kv_heads=spec.num_kv_heads,
        head_dim=spec.head_size,
        out_dtype=out.dtype,
        compute_dtype=spec.dtype_ir,
        scale=scale,
        masks=spec.masks,
        varlen=spec.varlen,
        key_lengths=spec.key_lengths,
    )
    return bind(problem, spec, axes, layouts, layouts, q.device.id, return_lse=return_lse)

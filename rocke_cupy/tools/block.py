"""One block of query rows on the emulator: what counting and timing a kernel start from."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..dense import attention_dense_block, build_attention_dense
from ..emulator import Kernel, Report, hiprtc, load, run
from ..gpu.launch import element_strides, pack_shape
from ..rules.masks import UNLIMITED, Masks
from ..spec import AttentionDenseSpec


@functools.cache
def compiled(spec: AttentionDenseSpec, rocm: str | None) -> tuple[str, bytes]:
    """Return a kernel's name and its code object, made by the real hipRTC."""
    source = build_attention_dense(spec)
    return source.name, hiprtc.compile(source.code, source.options, rocm=rocm).code


def kernel_of(spec: AttentionDenseSpec, rocm: str | None) -> Kernel:
    """Return what the code object says about a kernel: registers, LDS, scratch."""
    name, code = compiled(spec, rocm)
    return load(code).kernels[name]


def run_block(
    spec: AttentionDenseSpec,
    keys: int,
    *,
    rocm: str | None = None,
    window: tuple[int, int] = (UNLIMITED, UNLIMITED),
    **options: Any,
) -> Report:
    """Execute one block of query rows that sees `keys` keys, and no other.

    Parameters
    ----------
    spec : AttentionDenseSpec
        Its shape does not matter: only what the binary bakes in.
    keys : int
        With ``num_splits`` the block is the last split, and `keys` are its own.
    rocm : str, optional
        Generation of hipRTC.
    window : tuple of int
        What the masks of the spec are set to at run time. By default they hide nothing, so that
        all tiles go through the loop without masks.
    **options
        Of `rocke_cupy.emulator.run`.

    Returns
    -------
    Report
    """
    name, code = compiled(spec, rocm)
    group = spec.num_queries_per_kv if spec.pack_gqa else 1
    tokens, splits = -(-spec.block_m // group), 2 if spec.num_splits > 1 else 1
    dtype = spec.dtype_ir
    # Zeros: what is counted and timed does not depend on values, once the first tile has set
    # the running maximum.
    q = np.zeros((1, tokens, group, spec.head_size), dtype)
    k, v = (np.zeros((1, keys * splits, 1, spec.head_size), dtype) for _ in "kv")
    out = np.zeros((splits, *q.shape), np.dtype(np.float32) if spec.float32_out else dtype)
    lse = np.empty((splits, group, tokens), np.float32)
    axes = (-1, 1, 2) if spec.varlen else (0, 1, 2)
    arrays = {"q": q, "k": k, "v": v, "o": out[0]}
    shape = pack_shape(
        strides={n: element_strides(a, axes) for n, a in arrays.items()},
        masks=Masks(*window, top_left=False),
        lse_batch=0,
        lse_head=tokens,
        # Packed sequences have one more entry, for the rows after the last one.
        batch=2 if spec.varlen else 1,
        seqlen_q=tokens,
        seqlen_kv=keys * splits,
        kv_heads=1,
        group=group,
        query_blocks=1,
        num_splits=splits,
        o_split=q.size,
        lse_split=group * tokens,
        num_workgroups=1,
        total_q=tokens,
    )
    bounds = [np.array([0, n], np.int32) if spec.varlen else None for n in (tokens, keys * splits)]
    arguments = [q, k, v, out, np.float32(1), *bounds, None, lse, np.asarray(shape)]
    grid = (1,) if spec.persistent else (splits,)
    return run(
        code, name, grid, attention_dense_block(spec), arguments,
        workgroups=[grid[0] - 1], threads=1, **options,
    )  # fmt: skip

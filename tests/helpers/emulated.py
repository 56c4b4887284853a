"""A kernel on NumPy arrays: compiled by the real hipRTC, executed by the emulator, without CuPy."""

import dataclasses

import numpy as np

from helpers.fences import Fenced
from helpers.problems import DTYPES
from rocke_cupy import attention_dense_block, attention_dense_grid
from rocke_cupy.emulator import run
from rocke_cupy.gpu.launch import element_strides, pack_shape, split_scale
from rocke_cupy.rules.masks import Masks, check_masks
from rocke_cupy.spec import AttentionDenseSpec
from rocke_cupy.tools.block import compiled

DENSE_AXES = (0, 1, 2)
VARLEN_AXES = (-1, 0, 1)


def spec_for(case, **changes):
    """Return the spec of a `Case`, as a user of the low-level functions would write it."""
    masks = check_masks(case.causal, case.window, case.alignment, case.offset)
    fields = dict(
        batch=case.batch,
        seqlen_q=case.seqlen_q,
        seqlen_kv=max(case.seqlen_kv, 1),
        num_query_heads=case.heads,
        num_kv_heads=case.kv_heads,
        head_size=case.head_dim,
        causal=case.causal,
        dtype=case.dtype,
        sliding_window=masks.left + 1 if case.window[0] not in (-1, None) else 0,
        ragged=True,
        causal_alignment=case.alignment,
        window_right=masks.right if case.window[1] not in (-1, None) and not case.causal else -1,
        key_lengths=case.kv_lens is not None,
    )
    return AttentionDenseSpec(**{**fields, **changes})


def attend(case, rocm="7.0", arrays=None, fenced=True, **options):
    """Run a `Case`; return out (B, Sq, Hq, D), LSE and the emulator's report.

    Options are fields of the spec, or of `rocke_cupy.emulator.run`.
    """
    names = {f.name for f in dataclasses.fields(AttentionDenseSpec)}
    spec = spec_for(case, **{k: options.pop(k) for k in list(options) if k in names})
    q, k, v = arrays or case.arrays()
    out = np.full(q.shape, np.nan, np.float32 if spec.float32_out else DTYPES[case.dtype])
    lse = np.full((case.batch, case.heads, case.seqlen_q), np.nan, np.float32)
    fences = [Fenced(a) for a in (q, k, v, out, lse)] if fenced else []
    q, k, v, out, lse = [f.array for f in fences] if fenced else (q, k, v, out, lse)
    lengths = None if case.kv_lens is None else np.array(case.kv_lens, np.int32)
    report = launch(spec, q, k, v, out, lse, case, rocm=rocm, kv_lens=lengths, **options)
    for fence in fences:
        fence.assert_fence_intact()
    return out.copy(), lse.copy(), report


def launch(
    spec, q, k, v, out, lse, case, *, rocm="7.0", kv_lens=None, cu_seqlens=(None, None), **options
):
    """Run one kernel on arrays in the layout that it takes.

    With splits, out and lse are those of the first, and the others follow them in memory.
    """
    name, code = compiled(spec, rocm)
    grid = attention_dense_grid(spec)
    axes = VARLEN_AXES if spec.varlen else DENSE_AXES
    masks = check_masks(case.causal, case.window, case.alignment, case.offset)
    assert isinstance(masks, Masks)
    tokens = q.shape[axes[1]]
    scale, query_exponent = split_scale(case.head_dim**-0.5 if case.scale is None else case.scale)
    shape = pack_shape(
        strides={n: element_strides(a, axes) for n, a in zip("qkvo", (q, k, v, out), strict=True)},
        masks=masks,
        lse_batch=0 if spec.varlen else spec.num_query_heads * tokens,
        lse_head=tokens,
        o_split=out.size,
        lse_split=lse.size,
        batch=spec.batch,
        seqlen_q=spec.seqlen_q,
        seqlen_kv=k.shape[axes[1]],
        kv_heads=spec.num_kv_heads,
        group=spec.num_queries_per_kv,
        query_blocks=spec.num_query_blocks,
        num_splits=spec.num_splits,
        num_workgroups=int(np.prod(grid)),
        total_q=tokens,
        query_exponent=query_exponent,
    )
    arguments = [q, k, v, out, np.float32(scale), *cu_seqlens, kv_lens, lse, np.asarray(shape)]
    checks = {"equal_barriers": True, "written_lds": options.get("races", True) is not False}
    return run(code, name, grid, attention_dense_block(spec), arguments, **checks, **options)

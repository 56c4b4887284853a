"""The vocabulary of one kernel: from a spec to its source, its launch geometry and a launch."""

from __future__ import annotations

import dataclasses
import functools

from .arch import ARCH, require_supported
from .kernels.build import OPTIONS, KernelSource
from .kernels.grid import fold_grid
from .kernels.source import translation_unit
from .kernels.variant import KernelVariant
from .spec import WAVE, AttentionDenseSpec


def supports_attention_dense(spec: AttentionDenseSpec, *, arch: str = ARCH) -> tuple[bool, str]:
    """Return whether there is a kernel for a spec, and if not, why.

    Parameters
    ----------
    spec : AttentionDenseSpec
        What the kernel is for.
    arch : str
        Name of the GPU's architecture.

    Returns
    -------
    supported : bool
        Whether `build_attention_dense` and `run_attention_dense` take the spec.
    why : str
        The reason if they do not, else empty.

    Examples
    --------
    >>> from rocke_cupy import AttentionDenseSpec, supports_attention_dense
    >>> spec = AttentionDenseSpec(2, 256, 256, 8, 2, 128)
    >>> supports_attention_dense(spec)
    (True, '')
    >>> supports_attention_dense(spec, arch="gfx942")
    (False, 'attention_dense has kernels for gfx950 only, this is gfx942')
    """
    try:
        require_supported(arch, "attention_dense")
        # A spec checks itself when it is made, but not what object.__setattr__ did to it later.
        dataclasses.replace(spec)
    except (ValueError, NotImplementedError) as error:
        return False, str(error)
    return True, ""


def build_attention_dense(spec: AttentionDenseSpec, *, arch: str = ARCH) -> KernelSource:
    """Return the specialised kernel of a spec: its name, its whole source and its options.

    No shape is in it, so specs that differ in shape only give equal results.

    Parameters
    ----------
    spec : AttentionDenseSpec
        What the kernel is for.
    arch : str
        Name of the GPU's architecture.

    Returns
    -------
    KernelSource
        Its fields are `name`, `code` and `options`.

    Examples
    --------
    >>> from rocke_cupy import AttentionDenseSpec, build_attention_dense
    >>> kernel = build_attention_dense(AttentionDenseSpec(2, 256, 256, 8, 2, 128))
    >>> kernel.name
    'rocke_attention_forward_d128_bn64_bf16_right_lazyrs_grid_wpe2'
    """
    require_supported(arch, "attention_dense")
    return _source_of(KernelVariant.of(spec))


@functools.cache
def _source_of(variant: KernelVariant) -> KernelSource:
    code = translation_unit(
        variant.kernel_file,
        "ROCKE_ATTENTION_FORWARD",
        variant.entry,
        variant.constants(),
    )
    return KernelSource(variant.entry, code, OPTIONS)


def attention_dense_grid(spec: AttentionDenseSpec) -> tuple[int, int, int]:
    """Return the workgroups of a launch: one for each block of query rows, head and batch entry.

    Axes past the hardware's limits are folded into others, with the same product.

    Parameters
    ----------
    spec : AttentionDenseSpec
        What the kernel is for.

    Returns
    -------
    tuple of int
        Workgroups along x, y and z.

    Examples
    --------
    >>> from rocke_cupy import AttentionDenseSpec, attention_dense_grid
    >>> attention_dense_grid(AttentionDenseSpec(2, 1024, 1024, 8, 2, 128))
    (4, 8, 2)
    """
    if spec.persistent:
        return fold_grid(spec.num_persistent, 1, 1)
    heads = spec.num_kv_heads if spec.pack_gqa else spec.num_query_heads
    return fold_grid(spec.num_query_blocks, heads, spec.batch * spec.num_splits)


def attention_dense_block(spec: AttentionDenseSpec) -> tuple[int, int, int]:
    """Return the work-items of a workgroup.

    Parameters
    ----------
    spec : AttentionDenseSpec
        What the kernel is for.

    Returns
    -------
    tuple of int
        Work-items along x, y and z.

    Examples
    --------
    >>> from rocke_cupy import AttentionDenseSpec, attention_dense_block
    >>> attention_dense_block(AttentionDenseSpec(2, 256, 256, 8, 2, 128))
    (512, 1, 1)
    """
    return (spec.num_waves * WAVE, 1, 1)


def attention_dense_signature(spec: AttentionDenseSpec) -> list[dict[str, str]]:
    """Return the kernel's parameters in order, each with its name and type.

    Parameters
    ----------
    spec : AttentionDenseSpec
        What the kernel is for.

    Returns
    -------
    list of dict
        With the keys "name" and "type".

    Examples
    --------
    >>> from rocke_cupy import AttentionDenseSpec, attention_dense_signature
    >>> for parameter in attention_dense_signature(AttentionDenseSpec(2, 256, 256, 8, 2, 128)):
    ...     print(parameter["name"], parameter["type"])
    q_ptr ptr<bf16>
    k_ptr ptr<bf16>
    v_ptr ptr<bf16>
    o_ptr ptr<bf16>
    scale f32
    cu_seqlens_q ptr<i32>
    cu_seqlens_kv ptr<i32>
    kv_lens ptr<i32>
    lse_ptr ptr<f32>
    shape struct Shape
    """
    out = "f32" if spec.float32_out else spec.dtype
    types = {
        "q_ptr": f"ptr<{spec.dtype}>",
        "k_ptr": f"ptr<{spec.dtype}>",
        "v_ptr": f"ptr<{spec.dtype}>",
        "o_ptr": f"ptr<{out}>",
        "scale": "f32",
        "cu_seqlens_q": "ptr<i32>",
        "cu_seqlens_kv": "ptr<i32>",
        "kv_lens": "ptr<i32>",
        "lse_ptr": "ptr<f32>",
        "shape": "struct Shape",
    }
    return [{"name": name, "type": kind} for name, kind in types.items()]

"""Flash attention on CuPy arrays for the AMD Instinct MI355X (gfx950).

Importing this package needs no GPU, no CuPy and no compiler: CuPy is looked up only when the
caller's arrays are CuPy's.
"""

from . import reference
from .attention import attention, attention_varlen
from .dense import (
    attention_dense_block,
    attention_dense_grid,
    attention_dense_signature,
    build_attention_dense,
    supports_attention_dense,
)
from .kernels.build import KernelBuildError, KernelSource
from .merge import merge_states
from .run import run_attention_dense
from .spec import AttentionDenseSpec
from .tools.ahead import compile  # noqa: A004 (public, as numba and re have it)
from .tools.config import show_config
from .version import __version__ as __version__

__all__ = [
    "AttentionDenseSpec",
    "KernelBuildError",
    "KernelSource",
    "attention",
    "attention_dense_block",
    "attention_dense_grid",
    "attention_dense_signature",
    "attention_varlen",
    "build_attention_dense",
    "compile",
    "merge_states",
    "reference",
    "run_attention_dense",
    "show_config",
    "supports_attention_dense",
]

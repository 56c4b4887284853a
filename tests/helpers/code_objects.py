"""All kernels of the project, by name: what a rule about compiled code is checked over.

@code_objects.each
def test_rule(name, compiler):
    program = load(code_objects.compiled(name, compiler))
"""

import functools
import itertools

import pytest

from helpers.compiled import compile_source
from helpers.problems import DTYPES
from helpers.specs import spec
from rocke_cupy import build_attention_dense
from rocke_cupy.emulator.rocm.tools import VERSIONS
from rocke_cupy.kernels.rows import copy_kernel, merge_kernel
from rocke_cupy.kernels.variant import KernelVariant

COMPILERS = ("7.0", "7.14", "ziglang")
"""hipRTC of two ROCm, and LLVM 22, which lies between them."""

FEATURES = {
    "causal": dict(),
    "full": dict(causal=False),
    "window": dict(sliding_window=256),
    "window both sides": dict(causal=False, sliding_window=65, window_right=64),
    "varlen": dict(varlen=True),
    "persistent qb_major": dict(persistent=True, persist_decode="qb_major"),
    "persistent hkv_major": dict(persistent=True, persist_decode="hkv_major"),
    "persistent interleave": dict(persistent=True, persist_decode="qb_major", interleave=True),
    "xcd": dict(work_order="xcd"),
    "no lazy_rescale": dict(lazy_rescale=False),
    "block_n 128": dict(block_n=128),
    "block_m 128": dict(block_m=128),
    "float32 out": dict(float32_out=True),
    "packed heads": dict(pack_gqa=True),
    "split keys": dict(num_splits=2, float32_out=True),
    "wide keys": dict(wide_kv=True),
    "one wave": dict(waves_per_eu=1),
    "streaming": dict(streaming=True),
}
"""What a variant differs in from a plain causal kernel."""

TOGETHER = (
    ("persistent qb_major", "varlen", "packed heads", "wide keys"),
    ("full", "persistent qb_major", "varlen", "packed heads", "wide keys"),
    ("window both sides", "persistent hkv_major", "varlen", "packed heads", "wide keys"),
    ("streaming", "persistent qb_major", "varlen", "packed heads", "wide keys"),
    (
        "streaming",
        "window both sides",
        "persistent hkv_major",
        "varlen",
        "packed heads",
        "wide keys",
    ),
)
"""Several at once, which need the most scalar registers."""

ROW_PAIRS = {
    copy_kernel: (
        ("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "fp32"), ("fp64", "fp64"), ("fp32", "bf16"),
        ("fp32", "fp16"), ("fp64", "bf16"), ("fp64", "fp16"), ("fp32", "fp64"),
    ),
    merge_kernel: (
        ("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "fp32"), ("fp64", "fp64"), ("fp32", "bf16"),
        ("fp32", "fp16"), ("fp32", "fp64"), ("bf16", "fp32"), ("fp16", "fp32"),
    ),
}  # fmt: skip
"""The types that arrays are copied and merged from, and to."""


def _variants(head_sizes, dtypes, features):
    """Yield the spec of each variant that exists."""
    for head_size, dtype, names in itertools.product(head_sizes, dtypes, features):
        fields = {k: v for name in names for k, v in FEATURES[name].items()}
        streams = head_size > 128 or "streaming" in fields
        of_blocks = {"block_m", "block_n"} & fields.keys()
        if not (streams and of_blocks) and not (head_size > 64 and len(of_blocks) == 2):
            yield spec(head_size=head_size, dtype=dtype, **fields)


def _pairs():
    """Yield pairs of features that do not contradict each other."""
    for pair in itertools.combinations(FEATURES, 2):
        fields = [FEATURES[name] for name in pair]
        persistent = any("persistent" in f for f in fields)
        if not (fields[0].keys() & fields[1].keys() or (persistent and "xcd" in pair)):
            yield pair


def _attention(specs):
    return {KernelVariant.of(s).entry: functools.partial(build_attention_dense, s) for s in specs}


_ALONE = [(name,) for name in FEATURES]
_USUAL = _attention(
    [
        *_variants((64,), ("bf16",), _ALONE),
        *_variants(
            (128,), ("bf16",), [("causal",), ("full",), ("window",), ("varlen",), *TOGETHER]
        ),
        *_variants((8, 40, 96, 192, 256), ("bf16",), [("causal",)]),
        *_variants((128,), ("fp16",), [("causal",)]),
    ]
)
_ROWS = {
    f"{make.__name__} {source} to {to}": functools.partial(make, DTYPES[source], DTYPES[to])
    for make, pairs in ROW_PAIRS.items()
    for source, to in pairs
}
_OTHERS = _attention(
    [
        *_variants(range(8, 257, 8), ("bf16", "fp16"), [("causal",), ("streaming",)]),
        *_variants((64, 128, 192, 256), ("bf16", "fp16"), [*_ALONE, *TOGETHER]),
        *_variants((128, 256), ("bf16",), _pairs()),
    ]
)
_EVERY = {**_USUAL, **_ROWS, **_OTHERS}

NAMES = tuple(_EVERY)


def _parameter(compiler, name):
    usual = name in _USUAL | _ROWS and compiler in VERSIONS
    return pytest.param(name, compiler, marks=[] if usual else pytest.mark.slow)


_PARAMETERS = [_parameter(*pair) for pair in itertools.product(COMPILERS, NAMES)]


def each(test):
    """Run a test for each kernel and compiler; if slow, not only the usual kernels by hipRTC."""
    return pytest.mark.network(pytest.mark.parametrize(("name", "compiler"), _PARAMETERS)(test))


def compiled(name, compiler):
    """Return the code object of a kernel."""
    return compile_source(_EVERY[name](), compiler)[1]

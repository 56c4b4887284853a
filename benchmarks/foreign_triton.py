"""A flash attention in Triton for `foreign_kernels.py`: `python foreign_triton.py FOLDER`.

It runs in an environment that has Triton (`pip install triton`), which needs neither a GPU nor
torch to compile. For each kind of operands it writes a code object and what a launch needs to know.
"""

import json
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

ROWS, KEYS, WARPS = 256, 64, 8
KINDS = {
    "bf16": {"Q": "bf16", "K": "bf16", "V": "bf16"},
    "fp8": {"Q": "fp8e4nv", "K": "fp8e4nv", "V": "fp8e4nv"},
    "i8": {"Q": "i8", "K": "i8", "V": "fp8e4nv"},
}
"""Operands of the kernels: the types of Triton's signatures."""


@triton.jit
def attention(
    Q, K, V, Out, scale, N, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Attention of one head over (N, D) arrays of keys and values, a block of queries a program."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + d[None, :])
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for first in range(0, N, BLOCK_N):
        keys = first + columns
        k = tl.load(K + keys[None, :] * D + d[:, None])
        s = tl.dot(q, k).to(tl.float32) * (scale * 1.44269504)
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        factor = tl.math.exp2(m - new)
        total = total * factor + tl.sum(p, 1)
        v = tl.load(V + keys[:, None] * D + d[None, :])
        acc = acc * factor[:, None] + tl.dot(p.to(v.dtype), v)
        m = new
    tl.store(Out + rows[:, None] * D + d[None, :], (acc / total[:, None]).to(tl.bfloat16))


def write(folder, kind, head_dim):
    """Compile one kernel for gfx950 and write it."""
    operands = {name: f"*{text}" for name, text in KINDS[kind].items()}
    constants = {"D": head_dim, "BLOCK_M": ROWS, "BLOCK_N": KEYS}
    signature = operands | {"Out": "*bf16", "scale": "fp32", "N": "i32"}
    source = ASTSource(
        attention,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs=constants,
        attrs={(k,): [["tt.divisibility", 16]] for k in (0, 1, 2, 3, 5)},
    )
    compiled = triton.compile(
        source,
        target=GPUTarget("hip", "gfx950", 64),
        options={"num_warps": WARPS, "num_stages": 2},
    )
    target = folder / f"{kind}_d{head_dim}"
    target.with_suffix(".co").write_bytes(compiled.asm["hsaco"])
    facts = {
        "version": triton.__version__,
        "lds": compiled.metadata.shared,
        "kind": kind,
        "head_dim": head_dim,
    }
    target.with_suffix(".json").write_text(json.dumps(facts))


if __name__ == "__main__":
    for each in KINDS:
        write(Path(sys.argv[1]), each, 128)

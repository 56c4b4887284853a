"""Make triton_attention.co.gz: `python triton_attention.py` with Triton 3.8.0, no GPU needed."""

import gzip
import sys
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def attention(
    Q, K, V, Out, scale, N, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Causal attention of one head: (heads, N, D) arrays, a block of queries a program."""
    start = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * N * D
    rows = start + tl.arange(0, BLOCK_M)
    columns = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q = tl.load(Q + base + rows[:, None] * D + d[None, :], mask=rows[:, None] < N, other=0.0)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for first in range(0, start + BLOCK_M, BLOCK_N):
        keys = first + columns
        k = tl.load(K + base + keys[None, :] * D + d[:, None], mask=keys[None, :] < N, other=0.0)
        s = tl.dot(q, k) * (scale * 1.44269504)
        s = tl.where((keys[None, :] < N) & (keys[None, :] <= rows[:, None]), s, -float("inf"))
        new = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - new[:, None])
        factor = tl.math.exp2(m - new)
        total = total * factor + tl.sum(p, 1)
        v = tl.load(V + base + keys[:, None] * D + d[None, :], mask=keys[:, None] < N, other=0.0)
        acc = acc * factor[:, None] + tl.dot(p.to(v.dtype), v)
        m = new
    out = (acc / total[:, None]).to(Out.dtype.element_ty)
    tl.store(Out + base + rows[:, None] * D + d[None, :], out, mask=rows[:, None] < N)


if __name__ == "__main__":
    signature = {name: "*bf16" for name in ("Q", "K", "V", "Out")} | {"scale": "fp32", "N": "i32"}
    constants = {"D": 128, "BLOCK_M": 128, "BLOCK_N": 64}
    source = ASTSource(
        attention,
        signature=signature | {name: "constexpr" for name in constants},
        constexprs=constants,
        attrs={(k,): [["tt.divisibility", 16]] for k in range(4)},
    )
    options = {"num_warps": 8, "num_stages": 2}
    compiled = triton.compile(source, target=GPUTarget("hip", "gfx950", 64), options=options)
    target = Path(sys.argv[0]).with_suffix(".co.gz")
    target.write_bytes(gzip.compress(compiled.asm["hsaco"], mtime=0))
    print(target, "needs", compiled.metadata.shared, "bytes of LDS")

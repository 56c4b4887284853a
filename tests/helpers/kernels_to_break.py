"""The attention kernels that are broken on purpose, and problems that reach all of their code.

Amplitude 8 moves the softmax's anchor in the loop. More than four tiles go around the loop, and
lengths that are no multiples of anything leave tiles and rows that must be masked.
"""

import dataclasses

from helpers.mutants import Kernel, Packed, Problem
from helpers.problems import Case


def _kernel(title, *cases, packed=None, **fields):
    problems = [Problem(case, packed, fields=fields) for case in cases]
    if cases[0].causal and not packed:
        # Here the keys end before the diagonal does.
        short = dict(seqlen_q=100, seqlen_kv=70, alignment="top_left", amplitude=1)
        problems.append(Problem(dataclasses.replace(cases[0], **short), fields=fields))
    # Without LSE the code goes another way around its store; lengths are loaded if they are given,
    # and once more for rows without keys in a block that has some. And at amplitude 1 every key
    # counts.
    plain = dataclasses.replace(cases[0], amplitude=1)
    if not packed and not plain.kv_lens:
        plain = dataclasses.replace(plain, batch=3, kv_lens=(plain.seqlen_kv - 9, 0, 5))
    problems.append(Problem(plain, packed, with_lse=False, fields=fields))
    return Kernel(title, tuple(problems))


def _gqa(seqlen_q, seqlen_kv, **more):
    return Case(seqlen_q, seqlen_kv, 2, 1, amplitude=8, **more)


KERNELS = (
    _kernel("d128 bf16 causal", _gqa(70, 333, head_dim=128, causal=True)),
    _kernel("d128 fp16 full", _gqa(270, 333, head_dim=128, dtype="fp16")),
    _kernel(
        "d64 bf16 causal", _gqa(300, 407, head_dim=64, causal=True), Case(64, 320, causal=True)
    ),
    _kernel("d64 fp16 full", _gqa(70, 450, head_dim=64, dtype="fp16")),
    _kernel("d64 bf16 window", _gqa(100, 500, head_dim=64, window=(200, 30))),
    _kernel("d96 fp16 causal", _gqa(70, 333, head_dim=96, dtype="fp16", causal=True)),
    _kernel("d32 bf16 full", _gqa(70, 333, head_dim=32)),
    _kernel("d64 bf16 causal, 128 keys a tile", _gqa(70, 600, causal=True), block_n=128),
    _kernel("d128 bf16 full, 128 keys a tile", _gqa(70, 600, head_dim=128), block_n=128),
    _kernel("d64 bf16 causal, no lazy rescale", _gqa(70, 333, causal=True), lazy_rescale=False),
    _kernel(
        "d64 bf16 full, key lengths",
        _gqa(70, 400, batch=3, kv_lens=(333, 0, 400)),
        key_lengths=True,
    ),
    _kernel(
        "d64 bf16 causal, packed sequences",
        Case(433, 903, 2, 1, amplitude=8, causal=True),
        packed=Packed((70, 0, 300, 60), (400, 100, 333, 40)),
    ),
    _kernel(
        "d64 bf16 causal, persistent",
        _gqa(300, 407, causal=True),
        persistent=True,
        num_persistent=2,
        persist_decode="hkv_major",
    ),
    _kernel(
        "d64 bf16 causal, heads packed",
        Case(70, 333, 4, 1, amplitude=8, causal=True),
        pack_gqa=True,
        work_order="xcd",
    ),
    _kernel(
        "d128 bf16 full, split keys",
        _gqa(70, 650, head_dim=128),
        num_splits=2,
        float32_out=True,
        work_order="xcd",
    ),
    _kernel("d256 bf16 causal", Case(70, 333, 2, 1, 256, amplitude=8, causal=True)),
    _kernel("d192 fp16 full", Case(40, 333, 2, 1, 192, amplitude=8, dtype="fp16")),
    _kernel("d64 fp16 causal, wide keys", _gqa(70, 333, causal=True, dtype="fp16"), wide_kv=True),
)

"""Sequences of different lengths in one call, without padding.

Self-attention over a batch of protein-like sequences, 12 to 180 tokens long. Padding them to the
longest would more than double the array and compute scores that nobody reads; packed one after
the other they need the bounds only. Each sequence is compared with its own exact attention.

    python examples/varlen_packing.py                           on an MI355X
    python -m rocke_cupy.emulator examples/varlen_packing.py    on the virtual one
    python examples/varlen_packing.py --numpy                   on NumPy arrays, no device
"""

import argparse
import itertools
import sys

import numpy as np

import rocke_cupy

LENGTHS = [12, 180, 47, 95, 30]
HEADS, HEAD_DIM = 2, 64
TOLERANCE = 2e-3


def main():
    parser = argparse.ArgumentParser(description="Attention over packed sequences.")
    parser.add_argument("--numpy", action="store_true", help="use NumPy arrays, no device")
    if parser.parse_args().numpy:
        xp, to_numpy = np, np.asarray
    else:
        import cupy as xp

        to_numpy = xp.asnumpy

    rng = np.random.default_rng(0)
    bounds = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(np.int32)
    q, k, v = rng.standard_normal((3, bounds[-1], HEADS, HEAD_DIM)).astype(np.float16)
    padded = len(LENGTHS) * max(LENGTHS)
    print(f"{bounds[-1]} tokens packed, {padded} if padded")

    packed = rocke_cupy.attention_varlen(
        xp.asarray(q),
        xp.asarray(k),
        xp.asarray(v),
        cu_seqlens_q=xp.asarray(bounds),
        cu_seqlens_k=xp.asarray(bounds),
    )
    packed = to_numpy(packed)

    wrong = 0
    for start, stop in itertools.pairwise(bounds):
        one = slice(start, stop)
        exact = rocke_cupy.reference.attention(*(x[None, one].astype(float) for x in (q, k, v)))
        difference = np.abs(packed[one] - exact[0]).max()
        print(f"sequence of {stop - start:3} tokens: largest difference {difference:.1e}")
        wrong += not difference <= TOLERANCE  # a NaN counts as wrong
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

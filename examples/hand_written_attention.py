"""Three attentions as people write them by hand for NumPy or CuPy, and the one call for each.

A recommender (float32, fewer key heads than query heads), a language model in training (slices of
one fused projection, causal, head dim 40) and the same kind of model while it generates (one new
token against a float64 cache, head dim 48). None needs a cast, a copy, padding, a mask or repeated
heads.

    python examples/hand_written_attention.py                           on an MI355X
    python -m rocke_cupy.emulator examples/hand_written_attention.py    on the virtual one
    python examples/hand_written_attention.py --numpy                   on NumPy arrays, no device
"""

import argparse
import sys

import numpy as np

import rocke_cupy

TOLERANCE = 2e-3  # compute_dtype float16, numbers up to 4
rng = np.random.default_rng(0)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def recommender(xp, to_numpy, items=70):
    """Arrays (batch, items, heads, head dim) in float32; 8 query heads share 2 key heads."""
    q = rng.standard_normal((2, items, 8, 64), dtype=np.float32)
    k, v = rng.standard_normal((2, 2, items, 2, 64), dtype=np.float32)

    k_all = np.repeat(k, 4, axis=2)
    v_all = np.repeat(v, 4, axis=2)
    scores = q.transpose(0, 2, 1, 3) @ k_all.transpose(0, 2, 3, 1) / 64**0.5
    by_hand = (softmax(scores) @ v_all.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)

    q, k, v = xp.asarray(q), xp.asarray(k), xp.asarray(v)
    one_call = rocke_cupy.attention(q, k, v, compute_dtype="float16")
    return by_hand, to_numpy(one_call)


def training(xp, to_numpy):
    """Views of a fused projection (batch, tokens, 3 * heads * head dim), causal, head dim 40."""
    batch, tokens, heads, head_dim = 1, 90, 8, 40
    fused = rng.standard_normal((batch, tokens, 3 * heads * head_dim), dtype=np.float32)

    def as_heads(x):
        return x.reshape(batch, tokens, heads, head_dim).transpose(0, 2, 1, 3)

    q, k, v = map(as_heads, np.split(fused, 3, axis=-1))
    scores = q @ k.transpose(0, 1, 3, 2) / head_dim**0.5
    scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -1e9)
    by_hand = softmax(scores) @ v

    q, k, v = map(as_heads, xp.split(xp.asarray(fused), 3, axis=-1))
    one_call = rocke_cupy.attention(q, k, v, causal=True, layout="bhsd", compute_dtype="float16")
    return by_hand, to_numpy(one_call)


def generation(xp, to_numpy):
    """One token (batch, 1, heads, 48) against the filled part of a float64 cache."""
    heads, head_dim, filled = 6, 48, 133
    q = rng.standard_normal((1, 1, heads, head_dim))
    cache_k, cache_v = np.full((2, 4, 1024, heads, head_dim), np.nan)
    cache_k[:1, :filled] = rng.standard_normal((1, filled, heads, head_dim))
    cache_v[:1, :filled] = rng.standard_normal((1, filled, heads, head_dim))

    keys = cache_k[:1, :filled].transpose(0, 2, 3, 1)
    values = cache_v[:1, :filled].transpose(0, 2, 1, 3)
    weights = softmax(q.transpose(0, 2, 1, 3) @ keys / head_dim**0.5)
    by_hand = (weights @ values).transpose(0, 2, 1, 3)

    q, cache_k, cache_v = xp.asarray(q), xp.asarray(cache_k), xp.asarray(cache_v)
    one_call = rocke_cupy.attention(
        q, cache_k[:1, :filled], cache_v[:1, :filled], causal=True, compute_dtype="float16"
    )
    return by_hand, to_numpy(one_call)


def main():
    parser = argparse.ArgumentParser(description="Compare hand-written attention with one call.")
    parser.add_argument("--numpy", action="store_true", help="use NumPy arrays, no device")
    if parser.parse_args().numpy:
        xp, to_numpy = np, np.asarray
    else:
        import cupy as xp

        to_numpy = xp.asnumpy

    wrong = 0
    for case in (recommender, training, generation):
        by_hand, one_call = case(xp, to_numpy)
        assert (one_call.shape, one_call.dtype) == (by_hand.shape, by_hand.dtype)
        difference = np.abs(one_call - by_hand).max()
        print(f"{case.__name__:12} largest difference {difference:.1e} (allowed: {TOLERANCE:.0e})")
        wrong += not difference <= TOLERANCE  # a NaN counts as wrong
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Which of these sentences mean the same? MiniLM-L6 with its attention on an MI355X.

A sentence encoder (all-MiniLM-L6-v2) in plain NumPy, except for the attention of its six layers:
that is `rocke_cupy.attention` on CuPy arrays, float32 in and out, 12 heads of 32 numbers, sentences
of any length. The similarities are compared with those of onnxruntime running the same model.

    python examples/sentence_similarity.py                           on an MI355X
    python -m rocke_cupy.emulator examples/sentence_similarity.py    on the virtual one
    python examples/sentence_similarity.py --numpy                   on NumPy arrays, no device
"""

import argparse
import math
import sys

import minilm
import numpy as np

import rocke_cupy

SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "The graphics card that I ordered arrived broken.",
    "My GPU was damaged in the mail, so I want my money back.",
    "The weather is lovely today.",
    "It's so sunny outside!",
]


def attention(q, k, v, lengths, device):
    """Attention of float32 NumPy arrays (sentences, tokens, heads, 32), on the GPU if `device`."""
    if not device:
        return rocke_cupy.attention(q, k, v, kv_lens=lengths, compute_dtype="float16")
    import cupy as cp

    q, k, v, lengths = map(cp.asarray, (q, k, v, lengths))
    return cp.asnumpy(rocke_cupy.attention(q, k, v, kv_lens=lengths, compute_dtype="float16"))


def gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)).astype(x.dtype)) / 2


def encode(tokens, lengths, weights, device):
    """Turn sentences into vectors of length 1.

    `tokens` is (sentences, tokens of the longest one); `lengths` says how many of them count.
    """

    def dense(x, name):
        return x @ weights[name + ".weight"].T + weights[name + ".bias"]

    def normalise(x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        x /= np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + minilm.EPSILON)
        return x * weights[name + ".weight"] + weights[name + ".bias"]

    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    x = x + weights["embeddings.token_type_embeddings.weight"][0]
    x = normalise(x, "embeddings.LayerNorm")
    for i in range(minilm.LAYERS):
        layer = f"encoder.layer.{i}."
        q, k, v = (
            dense(x, layer + "attention.self." + name).reshape(*tokens.shape, minilm.HEADS, -1)
            for name in ("query", "key", "value")
        )
        mixed = attention(q, k, v, lengths, device).reshape(x.shape)
        x = x + dense(mixed, layer + "attention.output.dense")
        x = normalise(x, layer + "attention.output.LayerNorm")
        x = x + dense(gelu(dense(x, layer + "intermediate.dense")), layer + "output.dense")
        x = normalise(x, layer + "output.LayerNorm")
    means = np.stack([rows[:length].mean(axis=0) for rows, length in zip(x, lengths, strict=True)])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description="Compare sentences by their meaning.")
    parser.add_argument("--numpy", action="store_true", help="use NumPy arrays, no device")
    device = not parser.parse_args().numpy

    weights = minilm.load_weights()
    tokens, lengths = minilm.tokenize(SENTENCES)
    vectors = encode(tokens, lengths, weights, device)
    similarity = vectors @ vectors.T

    for row, sentence in zip(similarity, SENTENCES, strict=True):
        print(*(f"{value:6.3f}" for value in row), "", sentence)

    expected = minilm.run_onnxruntime(weights, tokens, lengths)
    difference = np.abs(similarity - expected @ expected.T).max()
    print(f"largest difference to onnxruntime: {difference:.1e} (allowed: 2e-3)")
    return 0 if difference <= 2e-3 else 1  # a NaN is not <= 2e-3 either


if __name__ == "__main__":
    sys.exit(main())

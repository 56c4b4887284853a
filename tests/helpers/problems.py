"""Attention problems: arrays to order, and which keys each query sees, by the contract's words."""

import dataclasses
from dataclasses import dataclass

import ml_dtypes
import numpy as np

DTYPES = {
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "fp16": np.dtype(np.float16),
    "fp32": np.dtype(np.float32),
    "fp64": np.dtype(np.float64),
}


@dataclass(frozen=True)
class Case:
    """One call: shapes, masks, dtype, and how large the inputs are."""

    seqlen_q: int
    seqlen_kv: int
    heads: int = 2
    kv_heads: int = 2
    head_dim: int = 64
    batch: int = 1
    dtype: str = "bf16"
    causal: bool = False
    window: tuple = (-1, -1)
    alignment: str = "bottom_right"
    offset: int = 0
    kv_lens: tuple | None = None
    scale: float | None = None
    amplitude: float = 1.0
    seed: int = 0

    def __str__(self):
        """Name the test: what differs from the defaults."""
        words = [f"{self.seqlen_q}x{self.seqlen_kv}"]
        for field in dataclasses.fields(self)[2:]:
            value = getattr(self, field.name)
            if value != field.default:
                words.append(f"{field.name}={value}".replace(" ", ""))
        return "-".join(words)

    def arrays(self):
        """Return q, k, v in NumPy, (B, S, H, D)."""
        rng = np.random.default_rng(self.seed)
        q_shape = (self.batch, self.seqlen_q, self.heads, self.head_dim)
        k_shape = (self.batch, self.seqlen_kv, self.kv_heads, self.head_dim)
        # Keys and queries share the amplitude; values stay near 1, so that errors compare.
        q = self.amplitude * rng.standard_normal(q_shape)
        k = self.amplitude * rng.standard_normal(k_shape)
        v = rng.standard_normal(k_shape)
        return [a.astype(np.float32).astype(DTYPES[self.dtype]) for a in (q, k, v)]

    def arguments(self):
        """Return the keywords of `rocke_cupy.attention`."""
        return dict(
            causal=self.causal,
            window_size=self.window,
            causal_alignment=self.alignment,
            diagonal_offset=self.offset,
            kv_lens=None if self.kv_lens is None else np.array(self.kv_lens, np.int32),
            softmax_scale=self.scale,
        )

    def visible(self, entry):
        """Return which keys each query of a batch entry sees, (Sq, Skv)."""
        length = self.seqlen_kv if self.kv_lens is None else self.kv_lens[entry]
        return visible(
            self.seqlen_q, length, self.seqlen_kv, self.causal, self.window, self.alignment,
            self.offset,
        )  # fmt: skip


class Given(Case):
    """A `Case` whose q, k and v are given."""

    def __init__(self, case, *arrays):
        super().__init__(**dataclasses.asdict(case))
        object.__setattr__(self, "given", arrays)

    def arrays(self):
        return self.given


def with_options(base, options):
    """Return a `Case` changed by those options that are fields of it, and the other options."""
    names = {f.name for f in dataclasses.fields(base)}
    fields = {name: value for name, value in options.items() if name in names}
    others = {name: value for name, value in options.items() if name not in names}
    return dataclasses.replace(base, **fields), others


def visible(seqlen_q, length, seqlen_kv, causal, window, alignment, offset=0):
    """Return which of ``seqlen_kv`` stored keys, ``length`` of them valid, each query sees."""
    i, j = np.arange(seqlen_q)[:, None], np.arange(seqlen_kv)[None, :]
    diagonal = offset + (i if alignment == "top_left" else i + length - seqlen_q)
    sees = np.broadcast_to(j < length, (seqlen_q, seqlen_kv)).copy()
    if causal:
        sees &= j <= diagonal
    left, right = window
    if left not in (-1, None):
        sees &= j >= diagonal - left
    if right not in (-1, None):
        sees &= j <= diagonal + right
    return sees

"""Calls as users write them, for mypy: it checks this file, nothing runs it.

A `type: ignore` that is not needed is an error to mypy, so the wrong calls must be found.
"""

from typing import assert_type

import numpy as np

import rocke_cupy


def right_calls(q: np.ndarray, shards: list[np.ndarray]) -> None:
    """Every public function, with the forms of argument that it takes."""
    assert_type(rocke_cupy.attention(q, q, q), np.ndarray)
    assert_type(rocke_cupy.attention(q, q, q, return_lse=False, causal=True), np.ndarray)
    out, lse = rocke_cupy.attention(q, q, q, return_lse=True)
    assert_type(out, np.ndarray)
    rocke_cupy.attention(q, q, q, return_lse=bool(lse.size))
    rocke_cupy.attention(
        q, q, q, softmax_scale=0.5, causal=True, window_size=(3, None), kv_lens=[4],
        causal_alignment="top_left", layout="bhsd", compute_dtype=np.float16, out=q.copy(),
        return_lse=True, check=False,
    )  # fmt: skip
    packed = rocke_cupy.attention_varlen(q, q, q, [0, 4], np.array([0, 4]), max_seqlen_q=4)
    assert_type(packed, np.ndarray)
    rocke_cupy.merge_states(shards, tuple(shards), layout="bshd")
    assert_type(rocke_cupy.reference.attention(q, q, q, window_size=(-1, 0)), np.ndarray)
    rocke_cupy.reference.attention_varlen(q, q, q, [0, 4], [0, 4])
    assert_type(rocke_cupy.compile(64, "float16", varlen=True), tuple[str, ...])
    rocke_cupy.show_config()
    spec = rocke_cupy.AttentionDenseSpec(1, 256, 256, 2, 2, 64).replace(causal=False)
    assert_type(rocke_cupy.supports_attention_dense(spec), tuple[bool, str])
    assert_type(rocke_cupy.build_attention_dense(spec).code, str)
    assert_type(rocke_cupy.attention_dense_grid(spec), tuple[int, int, int])
    rocke_cupy.run_attention_dense(spec=spec, q=q, k=q, v=q, out=q, scale=1.0)


def wrong_calls(q: np.ndarray) -> None:
    """What mypy shall find."""
    rocke_cupy.attention(q, q, q, casual=True)  # type: ignore[call-overload]
    rocke_cupy.attention(q, q, q, window_size=3)  # type: ignore[call-overload]
    rocke_cupy.attention(q, q, q, 0.5)  # type: ignore[call-overload]
    rocke_cupy.attention_varlen(q, q, q)  # type: ignore[call-overload]
    rocke_cupy.reference.attention(q, q, q, softmax_scale="1")  # type: ignore[call-overload]
    rocke_cupy.merge_states(5, [q])  # type: ignore[arg-type]

"""A code object of another compiler: Triton's causal attention (data/triton_attention.py)."""

import gzip
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from rocke_cupy.emulator import load, run

DATA = Path(__file__).parents[1] / "data" / "triton_attention.co.gz"
LDS, BLOCK, HEADS, TOKENS, HEAD_DIM = 84400, 128, 2, 200, 128


@pytest.fixture(scope="module")
def code() -> bytes:
    return gzip.decompress(DATA.read_bytes())


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    scores = np.einsum("hmd,hnd->hmn", q, k) * scale
    scores = np.where(np.tri(TOKENS, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hmn,hnd->hmd", weights / weights.sum(-1, keepdims=True), v)


def test_it_uses_what_hip_kernels_rarely_use(code):
    kernel = load(code).kernels["attention"]
    assert kernel.agprs > 0
    assert kernel.preload_length == 8
    assert kernel.lds_size == 0


@pytest.mark.parametrize("memory", ["eager", "lazy"])
@pytest.mark.parametrize("schedule", ["lockstep", "to_barrier", "random"])
def test_it_is_right(code, memory, schedule):
    rng = np.random.default_rng(9)
    shape = (HEADS, TOKENS, HEAD_DIM)
    q, k, v = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for _ in range(3))
    out = np.full(shape, np.nan, ml_dtypes.bfloat16)
    scale = np.float32(HEAD_DIM**-0.5)
    grid = (-(-TOKENS // BLOCK), HEADS)
    # Triton's launcher passes two more pointers, to scratch memory that this kernel has no use for
    args = [q, k, v, out, scale, np.int32(TOKENS), None, None]
    report = run(
        code, "attention", grid, (512,), args, shared_mem=LDS, memory=memory, schedule=schedule
    )
    expected = reference(q, k, v, float(scale))
    # bf16 rounds the weights and the result: 2**-9 each, of values up to about 3
    assert np.abs(out.astype(np.float64) - expected).max() < 3 * 2**-8
    assert report.races == []
    assert report.count("v_mfma_f32_32x32x16_bf16") + report.count("v_mfma_f32_16x16x32_bf16") > 0

"""Arrays on a device that is not the current one; the virtual GPU can be two."""

import os
import subprocess
import sys

import pytest

from rocke_cupy.arch import is_virtual

pytestmark = pytest.mark.gpu

SCRIPT = """
import cupy as cp, numpy as np, rocke_cupy
def of(device, *shape):
    with cp.cuda.Device(device):
        return cp.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float16))
def same(call):
    here, there = (call(*(of(d, *s) for s in ((2, 40, 2, 64), (2, 70, 1, 64)))) for d in (0, 1))
    assert there.device.id == 1, there.device
    assert (cp.asnumpy(here) == cp.asnumpy(there)).all()
def packed(q, k):
    return rocke_cupy.attention_varlen(q[0], k[0], k[0], [0, 9, 40], [0, 30, 70])
def merged(q, k):
    out, lse = rocke_cupy.attention(q, k, k, return_lse=True)
    return rocke_cupy.merge_states([out, out], [lse, lse])[0]
for call in (
    lambda q, k: rocke_cupy.attention(q, k, k, causal=True),
    lambda q, k: rocke_cupy.attention(q, k, k, causal=True),
    lambda q, k: rocke_cupy.attention(q, k, k, window_size=[3, 3]),
    lambda q, k: rocke_cupy.attention(q, k, k, kv_lens=[70, 3]),
    lambda q, k: rocke_cupy.attention(q[..., 1:41], k[..., 1:41], k[..., 1:41]),
    lambda q, k: rocke_cupy.attention(q, k, k, out=of(q.device.id, *q.shape)),
    packed, packed, merged,
):
    same(call)
    assert cp.cuda.runtime.getDevice() == 0
assert rocke_cupy.attention(*(of(1, 1, n, 1, 64) for n in (0, 5, 5))).device.id == 1
print("right")
"""


def test_a_call_runs_on_the_device_of_its_arrays():
    if not is_virtual():
        pytest.skip("needs a virtual device, which can be two")
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "ROCKE_EMULATOR_DEVICES": "2"},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "right\n", run.stderr

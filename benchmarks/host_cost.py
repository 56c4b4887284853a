"""What a call of `rocke_cupy.attention` costs on the host, beside a bare launch of its kernel.

    python -m rocke_cupy.emulator benchmarks/host_cost.py

The virtual device checks each launch and executes nothing here, so what is timed is Python, CuPy
and the launch. The bare launch is `cupy.RawKernel` with the same arguments, made beforehand. On a
real GPU run it with plain `python`; the kernel then runs behind the host, as long as it is short.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import cupy
import ml_dtypes
import numpy as np

import rocke_cupy
from rocke_cupy import _build, _device

BAR = 1.5
CALLS, ROUNDS = 500, 15
SHAPES = 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--compiled", action="store_true", help="only print what this compiles")
    options = parser.parse_args()
    cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)
    with without_execution():
        if options.compiled:
            call_every_shape(np.random.default_rng(1))
            return
        compare_calls()
        count_compilations()


def without_execution():
    """Launch without executing, on the virtual device; on a real one, change nothing."""
    from rocke_cupy.emulator import device

    return device.configure(execute=False) if device.active() else contextlib.nullcontext()


def arrays(batch, length, keys, heads, kv_heads, head_dim=128):
    dtype = np.dtype(ml_dtypes.bfloat16)
    q = cupy.zeros((batch, length, heads, head_dim), dtype)
    k, v = (cupy.zeros((batch, keys, kv_heads, head_dim), dtype) for _ in "kv")
    return q, k, v


# ---- one call ----


def compare_calls():
    q, k, v = arrays(2, 1024, 1024, 16, 16)
    out = cupy.empty(q.shape, q.dtype)
    launch = bare_launch(q, k, v, out)
    calls = {
        "bare RawKernel launch": launch,
        "attention(out=out)": lambda: rocke_cupy.attention(q, k, v, causal=True, out=out),
        "attention()": lambda: rocke_cupy.attention(q, k, v, causal=True),
        "attention(return_lse=True)": lambda: rocke_cupy.attention(
            q, k, v, causal=True, return_lse=True
        ),
    }
    times = {name: [] for name in calls}
    for call in calls.values():
        microseconds(call)
    for _ in range(ROUNDS):  # side by side, so that the machine's moods hit all alike
        for name, call in calls.items():
            times[name].append(microseconds(call))
    base = times["bare RawKernel launch"]
    print(f"{'median of ' + str(ROUNDS) + ' rounds':<28}{'us':>8}{'spread':>16}{'ratio':>8}")
    for name, values in times.items():
        ratio = statistics.median(a / b for a, b in zip(values, base, strict=True))
        spread = f"{min(values):.1f} .. {max(values):.1f}"
        print(f"{name:<28}{statistics.median(values):>8.1f}{spread:>16}{ratio:>8.2f}")
    print(f"The bar is a ratio of {BAR} for attention(out=out), which does what the launch does.")


def microseconds(call):
    start = time.thread_time()  # of this thread: other load on the machine does not count
    for _ in range(CALLS):
        call()
    return (time.thread_time() - start) / CALLS * 1e6


def bare_launch(q, k, v, out):
    """Return a call that launches the same kernel with the same arguments by CuPy alone."""
    rocke_cupy.attention(q, k, v, causal=True, out=out)
    (plan,) = _device.kept.plans.values()
    launch = plan.launch
    arguments = (
        q, k, v, out, launch.scale, None, None, None, None, launch.shape,
    )  # fmt: skip
    spec = rocke_cupy.AttentionDenseSpec(
        *(2, 1024, 1024, 16, 16, 128), causal=True, ragged=True, work_order="xcd",
        causal_alignment="bottom_right",
    )  # fmt: skip
    source = rocke_cupy.build_attention_dense(spec)
    module = cupy.RawModule(code=source.code, options=(*source.options, "--offload-arch=gfx950"))
    kernel = module.get_function(source.name)
    return lambda: kernel(launch.grid, launch.block, arguments)


# ---- compilation ----


def count_compilations():
    names = rocke_cupy.compile(128, ml_dtypes.bfloat16, causal=True)
    print(
        f"\nrocke_cupy.compile made the {len(names)} kernels that causal bf16 calls "
        "of head dim 128 need."
    )
    builds = []
    compile_one = _build._compile
    _build._compile = lambda *arguments: builds.append(arguments) or compile_one(*arguments)
    before = cached_files()
    call_every_shape(np.random.default_rng(0))
    new = len(cached_files() - before)
    print(
        f"{SHAPES} new shapes after that: {len(builds)} kernels built, "
        f"{new} files more in CuPy's cache."
    )
    _build._compile = compile_one
    before = cached_files()
    subprocess.run([sys.executable, __file__, "--compiled"], check=True)
    new = len(cached_files() - before)
    print(f"A second process with {SHAPES} other shapes: {new} files more in CuPy's cache.")


def call_every_shape(rng):
    for _ in range(SHAPES):
        kv_heads = int(rng.integers(1, 5))
        heads = kv_heads * int(rng.integers(1, 9))
        batch, length, keys = (int(n) for n in rng.integers((1, 1, 1), (4, 300, 600)))
        rocke_cupy.attention(*arrays(batch, length, keys, heads, kv_heads), causal=True)


def cached_files():
    folder = os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache"
    return {path for path in Path(folder).rglob("*") if path.is_file()}


if __name__ == "__main__":
    main()

"""What a call of `rocke_cupy.attention` costs on the host, beside a bare launch of its kernel.

    python -m rocke_cupy.emulator benchmarks/host_cost.py

The virtual device checks each launch and executes nothing here, so what is timed is Python, CuPy
and the launch. The bare launch is `cupy.RawKernel` with the same arguments, made beforehand. On a
real GPU run it with plain `python`; the kernel then runs behind the host, as long as it is short.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import time

import cupy
import ml_dtypes
import numpy as np

import rocke_cupy
from rocke_cupy.gpu import calls
from rocke_cupy.kernels import build

BAR, NEW_SHAPE_BAR = 1.3, 250.0
CALLS, ROUNDS = 500, 15
SHAPES = 100


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--second", action="store_true", help="only print what shapes compile")
    options = parser.parse_args()
    cupy.cuda.set_allocator(cupy.cuda.MemoryPool().malloc)
    with without_execution():
        if options.second:
            print(compilations(np.random.default_rng(1)))
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

    def allocate_and_launch():
        cupy.empty(q.shape, q.dtype)
        launch()

    bare, allocating = "bare RawKernel launch", "cupy.empty and that launch"
    calls = {  # each with what it does beside checks and look-ups, and so is compared with
        bare: (launch, bare),
        "attention(out=out)": (
            lambda: rocke_cupy.attention(q, k, v, causal=True, out=out), bare,
        ),
        allocating: (allocate_and_launch, allocating),
        "attention()": (lambda: rocke_cupy.attention(q, k, v, causal=True), allocating),
    }  # fmt: skip
    times = {name: [] for name in calls}
    for call, _ in calls.values():
        microseconds(call)
    for _ in range(ROUNDS):  # side by side, so that the machine's moods hit all alike
        for name, (call, _) in calls.items():
            times[name].append(microseconds(call))
    print(f"{'median of ' + str(ROUNDS) + ' rounds':<28}{'CPU us':>8}{'spread':>16}{'ratio':>8}")
    for name, (_, base) in calls.items():
        pairs = zip(times[name], times[base], strict=True)
        ratio = statistics.median(own / other for own, other in pairs)
        spread = f"{min(times[name]):.1f} .. {max(times[name]):.1f}"
        print(f"{name:<28}{statistics.median(times[name]):>8.1f}{spread:>16}{ratio:>8.2f}")
    print(f"Ratios are to the launch that does the same; the bar for the one with out= is {BAR}.")


def microseconds(call):
    start = time.thread_time()  # of this thread: other load on the machine does not count
    for _ in range(CALLS):
        call()
    return (time.thread_time() - start) / CALLS * 1e6


def bare_launch(q, k, v, out):
    """Return a call that launches the same kernel with the same arguments by CuPy alone."""
    rocke_cupy.attention(q, k, v, causal=True, out=out)
    (repeat,) = calls.kept.calls.values()
    launch = repeat.__self__.launch
    arguments = (
        q, k, v, out, launch.values["softmax_scale"], None, None, None, None,
        launch.values["shape"],
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
    print(f"{SHAPES} new shapes after that: {compilations(np.random.default_rng(0))}")
    print(
        f"A call of a new shape takes {new_shape_microseconds():.0f} us of CPU time (median of "
        f"{SHAPES}); the bar is {NEW_SHAPE_BAR:.0f}."
    )
    print(f"A second process with {SHAPES} other shapes: ", end="", flush=True)
    subprocess.run([sys.executable, __file__, "--second"], check=True)


def new_shape_microseconds():
    """Return the CPU time of a call that needs a plan, but no other kernel."""
    shapes = [arrays(1, 300 + n, 600 + n, 4, 4) for n in range(SHAPES)]
    rocke_cupy.attention(*arrays(1, 299, 599, 4, 4), causal=True)
    times = []
    for shape in shapes:
        start = time.thread_time()
        rocke_cupy.attention(*shape, causal=True)
        times.append(time.thread_time() - start)
    return statistics.median(times) * 1e6


def compilations(rng):
    """Call 100 shapes; return in words what was built and what hipRTC compiled for them."""
    built, compiled = [], []
    build_one, compile_one = build._compile, cupy.cuda.compiler.compile_using_nvrtc
    build._compile = lambda *given: built.append(given) or build_one(*given)
    cupy.cuda.compiler.compile_using_nvrtc = lambda *given, **named: (
        compiled.append(given) or compile_one(*given, **named)
    )
    call_every_shape(rng)
    build._compile, cupy.cuda.compiler.compile_using_nvrtc = build_one, compile_one
    return f"{len(built)} kernels loaded, {len(compiled)} compiled."


def call_every_shape(rng):
    for _ in range(SHAPES):
        kv_heads = int(rng.integers(1, 5))
        heads = kv_heads * int(rng.integers(1, 9))
        batch, length, keys = (int(n) for n in rng.integers((1, 1, 1), (4, 300, 600)))
        rocke_cupy.attention(*arrays(batch, length, keys, heads, kv_heads), causal=True)


if __name__ == "__main__":
    main()

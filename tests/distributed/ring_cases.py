"""What each rank of a test runs: mpiexec -n RANKS python ring_cases.py WHAT [LIBRARY].

It checks itself; a rank that finds something wrong ends the run with a traceback and a status.
"""

import dataclasses
import signal
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from mpi4py import MPI

sys.path.insert(0, str(Path(__file__).parent.parent))

from helpers.budget import assert_within_budget
from helpers.problems import Case

import rocke_cupy
from rocke_cupy.distributed import ring, ring_attention, staging
from rocke_cupy.distributed.shares import pieces

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size

CASES = [
    Case(67, 67, causal=True),
    Case(61, 90, heads=4, kv_heads=2, causal=True, amplitude=8),  # cross lengths, grouped heads
    Case(90, 40, causal=True, dtype="fp16"),  # rows that see no key
    Case(70, 70, causal=True, window=(20, 0)),  # most shares are seen by nobody
    Case(50, 66, window=(9, 17), alignment="top_left", offset=5, batch=2),
    Case(40, 3, head_dim=40),  # ranks without keys
    Case(33, 50, dtype="fp32", amplitude=2),
]


def uneven(tokens):
    """Return lengths of shares that differ, some of them 0."""
    rng = np.random.default_rng(tokens + SIZE)
    cuts = np.sort(rng.integers(0, tokens + 1, SIZE - 1))
    return np.diff([0, *cuts, tokens]).tolist()


def even(tokens):
    return [tokens // SIZE + (rank < tokens % SIZE) for rank in range(SIZE)]


def cut(array, of_rank):
    return np.concatenate([array[:, piece] for piece in of_rank], axis=1)


def on(xp, array):
    return xp.asarray(np.ascontiguousarray(array))


def check_parity(xp, ways):
    """Check each case against its budget, and bitwise against merges of the same shares."""
    for case in CASES:
        for order, lengths, way in ways:
            compare(xp, case, order, lengths, way)


def compare(xp, case, order, lengths, way):
    q, k, v = case.arrays()
    places_q, places_k = (pieces(lengths(x.shape[1]), order) for x in (q, k))
    arguments = case.arguments()
    arguments.pop("kv_lens")
    working = "float16" if case.dtype == "fp32" else None
    own = [
        xp.asarray(cut(x, at[RANK]))
        for x, at in zip((q, k, v), (places_q, places_k, places_k), strict=True)
    ]
    out, lse = ring_attention(
        *own, comm=COMM, order=order, return_lse=True, compute_dtype=working, staging=way,
        **arguments,
    )  # fmt: skip
    assert type(out) is type(own[0])
    assert out.dtype == own[0].dtype
    assert lse.dtype == np.float32
    alone = merged_by_one(xp, case, order, (q, k, v), places_q, places_k, working, arguments)
    for found, expected in zip((out, lse), alone, strict=True):
        np.testing.assert_array_equal(host(found).view("u1"), host(expected).view("u1"))
    gathered = COMM.gather((host(out), host(lse)))
    if RANK == 0:
        whole, whole_lse = np.empty_like(q), np.empty((case.batch, case.heads, len(q[0])), "f4")
        for (part, part_lse), at in zip(gathered, places_q, strict=True):
            start = 0
            for piece in at:
                end = start + piece.stop - piece.start
                whole[:, piece], whole_lse[:, :, piece] = (
                    part[:, start:end],
                    part_lse[..., start:end],
                )
                start = end
        assert_within_budget(case, whole, whole_lse, working)


def merged_by_one(xp, case, order, arrays, places_q, places_k, working, arguments):
    """Compute a rank's result from all shares, by itself: in the order in which they would come."""
    q, k, v = arrays
    masks = {**arguments, "causal_alignment": "top_left"}
    diagonal = masks.pop("diagonal_offset")
    if case.alignment == "bottom_right":
        diagonal += case.seqlen_kv - case.seqlen_q
    sees = case.visible(0)
    dtype = np.float32 if q.dtype.itemsize == 2 else q.dtype
    out = xp.zeros(cut(q, places_q[RANK]).shape, q.dtype)
    lse = xp.full((case.batch, case.heads, out.shape[1]), -np.inf, np.float32)
    start = 0
    for rows in places_q[RANK]:
        place = slice(start, start + rows.stop - rows.start)
        start, parts = place.stop, []
        for step in range(SIZE):
            for keys in places_k[(RANK - step) % SIZE]:
                if sees[rows, keys].any():
                    part = rocke_cupy.attention(
                        *(on(xp, x) for x in (q[:, rows], k[:, keys], v[:, keys])),
                        diagonal_offset=diagonal + rows.start - keys.start, return_lse=True,
                        out=xp.empty(q[:, rows].shape, dtype), compute_dtype=working, **masks,
                    )  # fmt: skip
                    parts = (
                        [rocke_cupy.merge_states(*zip(*parts, part, strict=True))]
                        if parts
                        else [part]
                    )
        if parts:
            out[:, place], lse[:, :, place] = parts[0][0].astype(q.dtype), parts[0][1]
    return out, lse


def host(array):
    return np.ascontiguousarray(array if isinstance(array, np.ndarray) else array.get())


def check_other_layouts(xp):
    """Check the other order of axes, and views that have to be copied before they can travel."""
    rng = np.random.default_rng(RANK)
    fused = xp.asarray(rng.standard_normal((1, 12, 3, 2, 64)).astype(np.float16))
    q, k, v = (fused[:, :, i] for i in range(3))
    straight = ring_attention(*map(xp.ascontiguousarray, (q, k, v)), comm=COMM, causal=True)
    np.testing.assert_array_equal(
        host(ring_attention(q, k, v, comm=COMM, causal=True)), host(straight)
    )
    turned = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    out = ring_attention(*turned, comm=COMM, causal=True, layout="bhsd")
    np.testing.assert_array_equal(host(out.transpose(0, 2, 1, 3)), host(straight))


WRONG = {
    "dtype": (TypeError, "k.dtype=float32", lambda q: dict(k=q.astype(np.float32))),
    "another dtype": (ValueError, "q.dtype is float16 on rank 0 and bfloat16 on rank {rank}",
                      lambda q: dict.fromkeys("qkv", q.astype(ml_dtypes.bfloat16))),
    "heads": (ValueError, "the number of query heads is 2 on rank 0 and 4 on rank {rank}",
              lambda q: dict(q=np.concatenate([q, q], axis=2))),
    "head dim": (ValueError, "the head dim is 64 on rank 0 and 32 on rank {rank}",
                 lambda q: dict.fromkeys("qkv", q[..., :32])),
    "causal": (ValueError, "causal is False on rank 0 and True on rank {rank}",
               lambda q: dict(causal=True)),
    "order": (ValueError, "order='ring' must be one of", lambda q: dict(order="ring")),
    "staging": (ValueError, "staging='gpu' must be one of", lambda q: dict(staging="gpu")),
    "window": (ValueError, "window_size is", lambda q: dict(window_size=(3, None))),
    "no array": (TypeError, "q must be a numpy.ndarray", lambda q: dict(q=None)),
}  # fmt: skip


def check_wrong_arguments():
    """Check that a mistake of the last rank is an error on all, and that they go on after it."""
    q = np.ones((1, 6, 2, 64), np.float16)
    for name, (error, sentence, mistake) in WRONG.items():
        arguments = dict(q=q, k=q, v=q, comm=COMM)
        if RANK == SIZE - 1:
            arguments.update(mistake(q))
        with pytest.raises(error) as raised:
            ring_attention(**arguments)
        assert sentence.format(rank=SIZE - 1) in str(raised.value), name
        assert f"rank {SIZE - 1}" in str(raised.value), name
    assert (ring_attention(q, q, q, comm=COMM) == 1).all()


def check_failure_underway():
    """Check that what fails on one rank while shares travel is an error on all of them."""
    q = np.ones((1, 6, 2, 64), np.float16)
    module = sys.modules["rocke_cupy.distributed.ring_attention"]
    if RANK == SIZE - 1:
        module.attention = lambda *_, **__: (_ for _ in ()).throw(MemoryError("no room"))
    with pytest.raises(MemoryError, match=f"^rank {SIZE - 1}: no room$"):
        ring_attention(q, q, q, comm=COMM)
    module.attention = rocke_cupy.attention
    assert (ring_attention(q, q, q, comm=COMM) == 1).all()


def check_traffic():
    """Count what a rank sends, what it keeps, and which pairs of a query and a key it computes."""
    tokens, sent, made, pairs = 96, [], [], []
    places = pieces(even(tokens), "zigzag")
    rng = np.random.default_rng(0)
    q, k, v = (
        cut(rng.standard_normal((1, tokens, 2, 64)).astype(np.float16), places[RANK]) for _ in "qkv"
    )
    exchange, buffers = ring._exchange, ring._buffers
    module = sys.modules["rocke_cupy.distributed.ring_attention"]
    ring._exchange = lambda comm, held, coming: (
        sent.append(sum(a.nbytes for a in held)), exchange(comm, held, coming)
    )[1]  # fmt: skip
    ring._buffers = lambda *a: made.append(buffers(*a)) or made[-1]
    module.attention = lambda q, k, v, **options: (
        pairs.append(seen(q.shape[1], k.shape[1], options["diagonal_offset"])),
        rocke_cupy.attention(q, k, v, **options),
    )[1]
    ring_attention(q, k, v, comm=COMM, causal=True, order="zigzag")
    share = k.nbytes + v.nbytes
    assert sum(sent) == (SIZE - 1) * share, (sent, share)
    assert sum(a.nbytes for kept in made for arrays in kept for a in arrays) <= 2 * share
    work = COMM.allgather(sum(pairs))
    assert max(abs(w - np.mean(work)) for w in work) <= 0.05 * np.mean(work), work
    assert sum(work) == tokens * (tokens + 1) // 2


def seen(rows, keys, offset):
    i, j = np.arange(rows)[:, None], np.arange(keys)
    return int((j <= i + offset).sum())


def wait_for_interrupt():
    """Attend again and again, until Ctrl-C."""
    q = np.ones((1, 64, 2, 64), np.float16)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if RANK == 0:
        print("started", flush=True)
    if RANK == SIZE - 1:  # the others wait for this one
        time.sleep(60)
    while True:
        ring_attention(q, q, q, comm=COMM)


def numpy_or_cupy(library):
    if library == "numpy":
        return np
    import cupy

    cupy.cuda.Device(RANK % cupy.cuda.runtime.getDeviceCount()).use()
    return cupy


def main(what, library="numpy"):
    xp = numpy_or_cupy(library)
    if what == "parity":
        ways = [("contiguous", even, None), ("contiguous", uneven, None), ("zigzag", uneven, None)]
        if library == "cupy":
            # This MPI knows no GPU; what is memory of the virtual device is memory of the host.
            assert not staging.takes_gpu_memory("mpi4py.MPI")
            ways = [("contiguous", even, None), ("zigzag", uneven, "device")]
            CASES[:] = [
                dataclasses.replace(case, heads=2, kv_heads=1) for case in CASES[1:4]
            ] + CASES[-1:]
        check_parity(xp, ways)
        check_other_layouts(xp)
    elif what == "errors":
        check_wrong_arguments()
        check_failure_underway()
    elif what == "traffic":
        check_traffic()
    else:
        wait_for_interrupt()
    COMM.Barrier()
    if RANK == 0:
        print("right", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

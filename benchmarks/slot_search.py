"""Search for the order of the softmax beside the matrix instructions (kernels_src/parts/slots.h).

python benchmarks/slot_search.py 64                # head dim: prints the best strings found
python benchmarks/slot_search.py 64 --scaled       # scores that have the factor already
python benchmarks/slot_search.py 128 --seconds 60 --room 2

An order is judged by the timing model's rules (docs/timing_model.md) for the two waves of a SIMD,
in this file: ten thousand orders take as long as one compilation. What is found is compiled: an
order is only good if no variant spills, which depends on it in ways that no rule here foresees.
"""

import argparse
import math
import random
import re
import time
import unittest.mock

TURN, VECTOR, EXP, MATRIX_ISSUE, MATRIX, BARRIER = 4, 4, 8, 8, 32, 12
"""Cycles: of rocke_cupy/emulator/timing/gfx950_timing.json."""
VOTE = (100, 116)
"""When in its load phase after Q K the other wave has a vector instruction: vote, and sum."""


class Cluster:
    """What an order must hold: of P V (first half of a tile's softmax) or of Q K (second half)."""

    def __init__(self, mfmas, second, scaled):
        self.mfmas, self.second, self.scaled = mfmas, second, scaled
        self.added = 0 if second else 4

    def nops(self, order):
        """Return the wait states that each step needs before it, or None if an order is wrong.

        The compilers put one before a step that reads what the step right before it wrote.
        """
        m = 16 if self.scaled else 0
        e = c = t = s = placed = 0
        a = self.added
        waits, wrote = [], ()
        for k in order:
            reads, writes, right = (), (), True
            if k == "m" or k == "M":
                n = 1 + (k == "M")
                writes, m, right = range(m, m + n), m + n, m % n == 0
            elif k == "e":
                reads = writes = (e,)
                right, e = e < m, e + 1
            elif k == "c":
                # P V reads the fragments in turn, and each is written after its last reader.
                unread = not self.second and placed < (c // 8 + 1) * self.mfmas // 4
                reads, c = (c, c + 1), c + 2
                right = c <= e and not unread
            elif k == "a" or k == "A":
                n = 1 + (k == "A")
                reads = (*range(a, a + n), *(-1 - (a + i) % 4 for i in range(n)))
                writes = reads[n:]
                right, a = a % n == 0 and a + n <= e, a + n
            elif k == "t" or k == "T":
                n = 1 + (k == "T")
                writes = tuple(-1 - t - i for i in range(n))
                reads = (*writes, *(-3 - t - i for i in range(n)))
                right, t = a == 16, t + n
            elif k == "s":
                reads, right, s = (-1, -2), t == 2, s + 1
            else:
                placed += 1
            if not right:
                return None
            waits.append(int(any(r in wrote for r in reads)))
            wrote = writes
        return waits

    def pressure(self, order):
        """Return the most registers that weights and new probabilities take, less those freed.

        An MFMA frees its fragment of K or V, four registers.
        """
        m = e = c = freed = most = 0
        a = self.added
        for k in order:
            m += {"m": 1, "M": 2}.get(k, 0)
            e += k == "e"
            c += 2 * (k == "c")
            a += {"a": 1, "A": 2}.get(k, 0)
            freed += 4 * (k == "|")
            # Sums that start as weights count as weights.
            weights = (e if self.scaled else m) - min(c, a if a > self.added else 0)
            most = max(most, weights + c // 2 - freed)
        return most

    def start(self):
        """Return a right order, all scalar, spread evenly."""
        flow = []
        for i in range(8):
            flow += [] if self.scaled else ["m", "m"]
            flow += ["e", "e", "c"] if self.second else ["e", "e"]
            flow += ["a", "a"] if 2 * i >= self.added else []
        flow += ["t", "t", "s"] if self.second else ["c"] * 8
        cycles = sum(EXP if k == "e" else VECTOR for k in flow)
        order, done, placed = [], 0, 0
        for k in flow:
            while placed < self.mfmas and done >= placed * cycles / self.mfmas:
                order.append("|")
                placed += 1
            order.append(k)
            done += EXP if k == "e" else VECTOR
        return order + ["|"] * (self.mfmas - placed)


def phase(order, waits, start, vector, matrix, others):
    """Replay a cluster; return its end, and when vector port and matrix pipe are free."""
    now = start
    others = [start + at for at in others]
    for k, nops in zip(order, waits, strict=True):
        now += nops * TURN
        at = max(now, vector, matrix) if k in "|MAT" else max(now, vector)
        # The other wave's instruction goes first if it has waited longer.
        while others and max(others[0], vector) <= at:
            vector = max(others.pop(0), vector) + VECTOR
            at = max(at, vector)
        now = at + TURN
        if k == "|":
            vector, matrix = at + MATRIX_ISSUE, at + MATRIX
        else:
            vector = at + (EXP if k == "e" else VECTOR)
    return now + TURN, vector, matrix


def cycles(pv, qk, tiles=2):
    """Return the cycles of a tile: each of the two waves of a SIMD has one Q K and one P V."""
    now = vector = matrix = before = 0
    for _ in range(tiles):
        before = now
        for order, waits in (qk, qk, pv, pv):
            end, vector, matrix = phase(
                order, waits, now, vector, matrix, VOTE if order is qk[0] else ()
            )
            now = end + BARRIER
    return now - before


PAIRS = {"M": "mm", "A": "aa", "T": "tt"}


def changed(order, packed):
    """Return a neighbour of an order."""
    order = list(order)
    if packed and random.random() < 0.15:
        at = random.randrange(len(order))
        if order[at] in PAIRS:
            order[at : at + 1] = PAIRS[order[at]]
        elif order[at] in "mat":
            for other in range(at + 1, min(at + 12, len(order))):
                if order[other] == order[at]:
                    kind = order[at].upper()
                    del order[other], order[at]
                    order.insert(other - 1 if kind != "M" else at, kind)
                    break
        return order
    for _ in range(random.choice((1, 1, 2, 3))):
        source = random.randrange(len(order))
        target = min(max(source + random.choice((-4, -3, -2, -1, 1, 2, 3, 4)), 0), len(order) - 1)
        order.insert(target, order.pop(source))
    return order


def search(head_dim, scaled, seconds, room, packed, seed):
    """Return the best orders of P V and Q K, and the cycles of a tile."""
    random.seed(seed)
    clusters = {
        "pv": Cluster(4 * math.ceil(head_dim / 32), second=False, scaled=scaled),
        "qk": Cluster(2 * math.ceil(head_dim / 16), second=True, scaled=scaled),
    }
    orders = {name: (c.start(), c.nops(c.start())) for name, c in clusters.items()}

    def cost(orders):
        extra = sum(
            4 * max(0, clusters[n].pressure(o) - room)
            + 0.05 * clusters[n].pressure(o)
            + 0.01 * len(o)
            for n, (o, _) in orders.items()
        )
        return cycles(orders["pv"], orders["qk"]) + extra

    now = best = cost(orders)
    winner, begin = orders, time.monotonic()
    while (passed := (time.monotonic() - begin) / seconds) < 1:
        heat = 12 * (1 - passed) ** 2 + 0.05
        name = random.choice(("pv", "qk"))
        order = changed(orders[name][0], packed)
        waits = clusters[name].nops(order)
        if waits is None:
            continue
        candidate = {**orders, name: (order, waits)}
        value = cost(candidate)
        if value <= now or random.random() < math.exp((now - value) / heat):
            orders, now = candidate, value
            if value < best:
                winner, best = orders, value
    return {n: "".join(o) for n, (o, _) in winner.items()}, cycles(winner["pv"], winner["qk"])


HARDEST = dict(
    causal=False, sliding_window=65, window_right=64, persistent=True,
    persist_decode="hkv_major", varlen=True, pack_gqa=True, wide_kv=True,
)  # fmt: skip
"""The variant that needs the most registers."""


def compiled(head_dim, scaled, found):
    """Return spilled registers of the hardest variant and cycles of the plain one, by compiler."""
    from rocke_cupy import AttentionDenseSpec, build_attention_dense
    from rocke_cupy.emulator import hiprtc, load
    from rocke_cupy.tools import block

    def with_orders(spec):
        source = build_attention_dense(spec)
        text = source.code
        for name, order in found.items():
            table = rf"beside_{name}<{order.count('|')}, {str(scaled).lower()}> = "
            text, times = re.subn(rf'({table})"[^"]*"', rf'\1"{order}"', text)
            assert times == 1, f"no table {table}"
        return source._replace(code=text)

    def spilled(rocm):
        source = with_orders(AttentionDenseSpec(**shape, **HARDEST))
        code = hiprtc.compile(source.code, source.options, rocm=rocm).code
        kernel = load(code).kernels[source.name]
        return kernel.vgpr_spills + kernel.sgpr_spills

    def pace(rocm):
        source = with_orders(AttentionDenseSpec(**shape))
        code = hiprtc.compile(source.code, source.options, rocm=rocm).code
        with unittest.mock.patch.object(block, "compiled", return_value=(source.name, code)):
            short, long = (
                block.run_block(
                    AttentionDenseSpec(**shape), keys, rocm=rocm, races=False, timing=True
                )
                for keys in (512, 1536)
            )
        return short.timing.between(long.timing, 16).cycles

    shape = dict(
        batch=1, seqlen_q=256, seqlen_kv=256, num_query_heads=2, num_kv_heads=1,
        head_size=head_dim, scaled_query=scaled,
    )  # fmt: skip
    return {rocm: (spilled(rocm), pace(rocm)) for rocm in ("7.0", "7.14")}


def main():
    """Search, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("head_dim", type=int)
    parser.add_argument("--scaled", action="store_true", help="scores that have the factor already")
    parser.add_argument("--scalar", action="store_true", help="no packed instruction")
    parser.add_argument("--room", type=int, default=12, help="registers left when a cluster starts")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1, help="of the first search")
    parser.add_argument("--candidates", type=int, default=1, help="searches")
    a = parser.parse_args()
    for seed in range(a.seed, a.seed + a.candidates):
        found, tile = search(a.head_dim, a.scaled, a.seconds, a.room, not a.scalar, seed)
        print(f"head dim {a.head_dim}, seed {seed}: {tile} cycles by the rules")
        for name, order in found.items():
            print(f"  {name}  {order}")
        for rocm, (spills, pace) in compiled(a.head_dim, a.scaled, found).items():
            print(f"  ROCm {rocm}: {pace:g} cycles; {spills} spills in the hardest variant")


if __name__ == "__main__":
    main()

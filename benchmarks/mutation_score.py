"""How many planted faults the checks notice, over all variants of the attention kernel.

    python benchmarks/mutation_score.py [--rocm 7.0] [--only TITLE] [--kinds KINDS] [--jobs 2]
        [--table FILE]

Every wait of a compiled kernel is weakened and every barrier removed, one at a time and in the
binary; and the faults of tests/helpers/source_mutations.py are compiled in, one at a time. Each
broken kernel runs on problems that reach all of its code, with loads as late as possible and at
once, and with three schedules of the waves. It needs no CuPy. All of it takes about half an hour on
two cores; docs/mutation.md explains the result.
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.kernels_to_break import KERNELS
from helpers.mutants import KINDS, NO_FAULT, Judge

BAR = 0.97


def run(title, rocm, kinds):
    """Return the outcomes of one kernel."""
    (kernel,) = (k for k in KERNELS if k.title == title)
    judge = Judge(kernel, rocm)
    judge.check_clean()
    return list(judge.outcomes(kinds))


def main():
    """Print the score."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rocm", default="7.0", help="hipRTC's version: 7.0 or 7.14")
    parser.add_argument("--only", default="", help="kernels whose title has this in it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", default=",".join(KINDS), help="of mutants; all by default")
    parser.add_argument("--table", type=Path, help="write each mutant to this file")
    options = parser.parse_args()
    titles = [k.title for k in KERNELS if options.only in k.title]
    started, kinds = time.perf_counter(), options.kinds.split(",")
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"--kinds has {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    with ProcessPoolExecutor(options.jobs) as pool:
        waiting = {title: pool.submit(run, title, options.rocm, kinds) for title in titles}
        found = {}
        for title, future in waiting.items():
            found[title] = _told(title, future.result())
            if options.table:
                options.table.write_text(_table(found))
    return _summary(found, options.rocm, time.perf_counter() - started)


def _told(title, outcomes):
    mutants = [o for o in outcomes if o.noticed not in NO_FAULT]
    silent = [o for o in mutants if not o.noticed]
    print(f"{title}: {len(mutants) - len(silent)} of {len(mutants)} noticed", flush=True)
    for o in silent:
        print(f"    silent: {o.kind}, {o.where}: {o.change}", flush=True)
    return outcomes


def _summary(found, rocm, seconds):
    outcomes = [o for of_kernel in found.values() for o in of_kernel]
    mutants = [o for o in outcomes if o.noticed not in NO_FAULT]
    noticed = [o for o in mutants if o.noticed]
    print(f"\nby kind of fault (noticed of all), ROCm {rocm}")
    for kind in dict.fromkeys(o.kind for o in outcomes):
        of_kind = [o for o in mutants if o.kind == kind]
        print(f"  {kind:<12}{sum(bool(o.noticed) for o in of_kind):>6} of {len(of_kind)}")
    print("by what noticed it")
    for what, count in Counter(o.noticed for o in noticed).most_common():
        print(f"  {what:<14}{count:>6}")
    same = len(outcomes) - len(mutants)
    print(f"not counted, since the code is the same, or the order that a fence is for: {same}")
    score = len(noticed) / len(mutants) if mutants else 1.0
    print(f"score {score:.2%}: {len(noticed)} of {len(mutants)} in {seconds:.0f} s")
    return 0 if score >= BAR else 1


def _table(found):
    rows = ["kernel\tfault\twhere\tchange\tnoticed by"]
    for title, outcomes in found.items():
        rows += [f"{title}\t{o.kind}\t{o.where}\t{o.change}\t{o.noticed or '-'}" for o in outcomes]
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main())

"""Wave instructions that the emulator executes in a second, over a whole attention kernel.

    python benchmarks/emulator_speed.py [--length 1024] [--rounds 3]

D = 128, bfloat16, causal and full, with the race checks off and on, with loads as late as possible
and at once; hazards are always checked; the best of the rounds. It needs no CuPy. It takes CPU
time, summed over the threads, so that other load does not count: the figures are those of one core.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.emulated import attend
from helpers.problems import Case

BARS = {False: 2.0e6, True: 1.5e6}
"""Wave instructions a second on one core of an idle machine, by whether races are checked."""


def main():
    """Print a line for each way to run, and return 1 if one is below its bar."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--length", type=int, default=1024, help="queries and keys")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    slow = False
    for causal in (True, False):
        case = Case(options.length, options.length, 1, 1, 128, causal=causal)
        for races in (False, True):
            for memory in ("lazy", "eager"):
                rate, total = best(case, options, races=races, memory=memory)
                slow |= rate < BARS[races]
                print(
                    f"{'causal' if causal else 'full':<7} race checks {'on' if races else 'off':<4}"
                    f"{memory:<6} {rate / 1e6:5.2f} M wave instructions a second, {total:,} in all",
                    flush=True,
                )
    return int(slow)


def best(case, options, **how):
    """Return the best rate of some rounds, and the instructions of one."""
    rates = []
    for _ in range(options.rounds):
        started = time.process_time()
        report = attend(case, threads=1, **how)[2]
        rates.append(report.total / (time.process_time() - started))
    return max(rates), report.total


if __name__ == "__main__":
    sys.exit(main())

"""Digests of what the device sees of each kernel: a change that shall not touch the code proves it.

    python tests/helpers/code_digests.py > before.txt
    python tests/helpers/code_digests.py > after.txt
    diff before.txt after.txt

With words as arguments, only kernels whose names contain one of them. Whole files differ with
every change of the sources, whose digest is the first line of the text that is compiled.
"""

import dataclasses
import hashlib
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rocke_cupy.emulator import load

PROCESSORS = 2


def digest(code):
    """Return the digest of a code object: its instructions, and what its descriptor asks for."""
    program = load(code)
    (kernel,) = program.kernels.values()
    asked = dataclasses.replace(kernel, name="", entry=0)
    return hashlib.sha256(program.code_object.text + repr(asked).encode()).hexdigest()[:16]


def main():
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from helpers import code_objects

    names = [n for n in code_objects.NAMES if any(word in n for word in sys.argv[1:] or [""])]
    jobs = [(name, rocm) for name in names for rocm in code_objects.COMPILERS]
    # hipRTC runs in a process of its own, so threads do.
    with ThreadPoolExecutor(PROCESSORS) as pool:
        for (name, rocm), code in zip(
            jobs, pool.map(lambda job: code_objects.compiled(*job), jobs), strict=True
        ):
            print(digest(code), rocm, name, flush=True)


if __name__ == "__main__":
    main()

"""Attention kernels of others on the virtual MI355X: whether they are right, and their loops.

    python benchmarks/foreign_kernels.py FOLDER [--triton PYTHON] [--keys 1024]

FOLDER holds what there is of them; what is missing is left out, and said so:

    aiter/    hsa/gfx950 of a checkout of https://github.com/ROCm/aiter, or parts of it: its
              hand-written code objects fmha_v3_fwd/*.co and fmha_v4_fwd/*.co
    triton/   what foreign_triton.py compiles; --triton names an interpreter that has Triton
              (python -m venv T && T/bin/pip install triton), with which this is done first
    HipKittens/, HIP/, clr/
              checkouts of https://github.com/HazyResearch/HipKittens and of ROCm's HIP and clr,
              whose headers hipRTC lacks: foreign_hipkittens.py compiles the attention kernels

One workgroup of 256 queries runs over a number of keys and over twice as many. The output is
compared with NumPy. The difference of the two is the loop: instructions of a wave and modelled
cycles of a compute unit, for 64 keys, beside those of this project in the same run. Nothing of it
was measured on hardware.
"""

import argparse
import dataclasses
import functools
import io
import json
import struct
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
from elftools.elf.elffile import ELFFile

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from foreign_hipkittens import NEEDED, compile_forward
from helpers.emulated import attend as attend_ours
from helpers.problems import Case

from rocke_cupy.emulator import EmulationError, load, run
from rocke_cupy.emulator.mix import mix_between
from rocke_cupy.emulator.mutate import Mutation, mutate
from rocke_cupy.emulator.program.waits import Wait

ROWS, WAVES, TILE = 256, 8, 64
LDS = 160_000  # what HipKittens gives each workgroup
BF16, FP8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
_ACCUM_OFFSET = 0x3F  # of the third resource word: registers / 4 - 1
_RESOURCE_3 = 44  # its place in a kernel descriptor


@dataclasses.dataclass
class Operands:
    """Q, K and V of one head as a kernel takes them, and what each element stands for."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    scales: list[np.ndarray]
    meaning: list[np.ndarray]

    @property
    def expected(self):
        """Softmax(Q K^T / sqrt(D)) V in double."""
        q, k, v = self.meaning
        scores = q @ k.T / np.sqrt(q.shape[1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True) @ v


def operands(kind, keys, head_dim, seed=0):
    """Random operands, quantised as aiter does it.

    Those of fp8 and i8 have one scale each. With "mx", each 32 elements of Q and K have one, and Q
    is multiplied by log2(e) / sqrt(D) beforehand.
    """
    rng = np.random.default_rng(seed)
    numbers = [rng.standard_normal((n, head_dim)) for n in (ROWS, keys, keys)]
    if kind == "bf16":
        numbers = [array.astype(BF16) for array in numbers]
        ones = [np.ones(1, np.float32) for _ in numbers]
        return Operands(*numbers, ones, [array.astype(float) for array in numbers])
    dtypes = [np.int8, np.int8, FP8] if kind == "i8" else [FP8] * 3
    beforehand = np.log2(np.e) / np.sqrt(head_dim) if kind == "mx" else 1.0
    numbers[0] *= beforehand
    quantise = [_by_32, _by_32, _at_once] if kind == "mx" else [_at_once] * 3
    given = [f(n, t) for f, n, t in zip(quantise, numbers, dtypes, strict=True)]
    (q, k, v), scales, meaning = zip(*given, strict=True)
    return Operands(q, k, v, list(scales), [meaning[0] / beforehand, *meaning[1:]])


def _at_once(numbers, dtype):
    """Return what stands for the numbers, its scale, and what that means."""
    most = 127 if dtype is np.int8 else float(ml_dtypes.finfo(dtype).max)
    scale = np.array([np.abs(numbers).max() / most], np.float32)
    array = numbers / scale
    array = (np.rint(array) if dtype is np.int8 else array).astype(dtype)
    return array, scale, array.astype(float) * scale


def _by_32(numbers, dtype):
    """Scale each 32 elements of a row by a power of two, whose E8M0 exponents are the scales."""
    most = np.abs(numbers).reshape(len(numbers), -1, 32).max(-1)
    exponents = np.ceil(np.log2(most / float(ml_dtypes.finfo(dtype).max))).astype(int)
    factor = np.ldexp(1.0, exponents).repeat(32, axis=1)
    array = (numbers / factor).astype(dtype)
    return array, (exponents + 127).astype(np.uint8), array.astype(float) * factor


# ---- what a foreign code object may need before it runs here ----


def one_register_file(code, kernel):
    """Let plain vector registers reach into the accumulation registers, which share their file.

    aiter's bf16 kernels number them past the descriptor's accum_offset, and call none by its own
    name.
    """
    program = load(code)
    offset = program.kernels[kernel].allocated_vgprs // 4 - 1
    address = program.code_object.symbols[f"{kernel}.kd"].address
    for segment in ELFFile(io.BytesIO(code)).iter_segments():
        first = address - segment["p_vaddr"]
        if segment["p_type"] == "PT_LOAD" and 0 <= first < segment["p_filesz"]:
            at = segment["p_offset"] + first + _RESOURCE_3
            word = int.from_bytes(code[at : at + 4], "little") & ~_ACCUM_OFFSET | offset
            return code[:at] + word.to_bytes(4, "little") + code[at + 4 :]
    raise ValueError(f"{kernel} has no descriptor")


def with_enough_waits(code, execute):
    """Tighten the wait before each early read until there is none.

    Returns
    -------
    bytes, list of str
        The code object, and the instructions that read too early.
    """
    early = []
    while True:
        try:
            execute(code)
        except EmulationError as error:
            if error.kind != "early":
                raise
            code = _tightened(code, error)
            early.append(str(error))
        else:
            return code, early


def _tightened(code, error):
    program = load(code)
    before = program.instructions[: error.instruction]
    wait = next(i for i in reversed(before) if i.mnemonic == "s_waitcnt")
    old = Wait.of(int(program.records["imm"][wait.index]))
    vector = program.instructions[error.other].mnemonic.startswith(("buffer_", "global_"))
    new = Wait(0, old.lgkmcnt) if vector else Wait(old.vmcnt, 0)
    if new == old:
        raise error
    word = 0xBF8C0000 | new.immediate
    return mutate(code, Mutation(wait.index, wait.offset, word, old.change_to(new)))


# ---- the families ----

_AITER_SLOTS = [
    "o", "q", "k", "v", "lse", "scale", "queries", "q_row", "q_tile", "q_head", "q_batch",
    "group", "k_row", "k_head", "k_batch", "tuning", "with_lse", "keys", "qk_dim", "v_dim",
    "heads", "v_row", "v_head", "v_batch", "o_row", "o_head", "o_batch", "q_starts", "k_starts",
    "lse_head", "q_padding", "k_padding", "q_scale", "k_scale", "v_scale", "q_scale_batch",
    "q_scale_head", "k_scale_batch", "k_scale_head", "v_scale_batch", "v_scale_head",
]  # fmt: skip
"""The arguments of aiter's kernels, 16 bytes each (its mha_fwd.h and asm_mha_v4_fwd.cu)."""


class Aiter:
    """A code object of aiter; `kind` as for `operands`."""

    def __init__(self, folder, path, kind, head_dim):
        self.name = f"aiter {path}"
        self.kind, self.head_dim = kind, head_dim
        self.path = folder / "aiter" / f"{path}.co"
        self.early = []

    @functools.cached_property
    def code(self):
        code = self.path.read_bytes()
        program = load(code)
        (self.kernel,) = program.kernels
        names_a = any(
            " a" in i.text for i in program.instructions if i.mnemonic[:2] in ("v_", "ds")
        )
        if not names_a:
            code = one_register_file(code, self.kernel)
        code, self.early = with_enough_waits(code, lambda c: self._run(c, 512))
        return code

    def attend(self, keys, **options):
        """Return the output, what it should be, and the report of a launch."""
        return self._run(self.code, keys, **options)

    def _run(self, code, keys, **options):
        given = operands(self.kind, keys, self.head_dim)
        out = np.zeros((ROWS, self.head_dim), BF16)
        lse = np.zeros(ROWS, np.float32)
        q_scale, k_scale, v_scale = given.scales
        row, row_out = given.q.nbytes // ROWS, out.nbytes // ROWS
        values = {
            "o": out, "q": given.q, "k": given.k, "v": given.v, "lse": lse,
            "scale": self.head_dim**-0.5, "queries": ROWS, "q_row": row, "q_tile": ROWS * row,
            "q_head": row, "q_batch": ROWS * row, "group": 1, "k_row": row, "k_head": row,
            "k_batch": keys * row, "tuning": 5, "keys": keys, "qk_dim": self.head_dim,
            "v_dim": self.head_dim, "heads": 1, "v_row": row, "v_head": row, "v_batch": keys * row,
            "o_row": row_out, "o_head": row_out, "o_batch": ROWS * row_out, "lse_head": 4 * ROWS,
            "q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale,
        }  # fmt: skip
        if q_scale.ndim > 1:
            values |= {"q_scale_head": 4, "k_scale_head": 4}
            values |= {"q_scale_batch": q_scale.nbytes, "k_scale_batch": k_scale.nbytes}
        block = b"".join(map(_slot, (values.get(name, 0) for name in _AITER_SLOTS)))
        arrays = [given.q, given.k, given.v, out, lse, *given.scales]
        buffers = [array.view(np.uint8).reshape(-1) for array in arrays]
        report = run(
            code, self.kernel, (1, 1, 1), (512,), block, buffers=buffers, races="collect", **options
        )
        return out.astype(np.float64), given.expected, report


def _slot(value):
    if isinstance(value, np.ndarray):
        return struct.pack("<Q8x", value.ctypes.data)
    return struct.pack("<f12x" if isinstance(value, float) else "<I12x", value)


class Triton:
    """What foreign_triton.py wrote."""

    def __init__(self, path):
        self.facts = json.loads(path.with_suffix(".json").read_text())
        self.kind, self.head_dim = self.facts["kind"], self.facts["head_dim"]
        self.name = f"Triton {self.facts['version']} {path.stem}"
        self.path, self.early = path, []

    def attend(self, keys, **options):
        """Return the output, what it should be, and the report of a launch."""
        given = operands(self.kind, keys, self.head_dim)
        out = np.zeros((ROWS, self.head_dim), BF16)
        q_scale, k_scale, v_scale = given.scales
        scale = np.float32(self.head_dim**-0.5 * q_scale[0] * k_scale[0])
        arguments = [given.q, given.k, given.v, out, scale, np.int32(keys), None, None]
        report = run(
            self.path.read_bytes(), "attention", (1,), (512,), arguments,
            shared_mem=self.facts["lds"], races="collect", **options,
        )  # fmt: skip
        return out.astype(np.float64) * v_scale, given.expected, report


class HipKittens:
    """A forward kernel of HipKittens, compiled for each number of keys."""

    early = ()

    def __init__(self, folder, head_dim):
        self.name, self.folder, self.head_dim = f"HipKittens bf16, D {head_dim}", folder, head_dim

    def attend(self, keys, **options):
        """Return the output, what it should be, and the report of a launch."""
        code = compile_forward(self.folder, self.head_dim, keys)
        given = operands("bf16", keys, self.head_dim)
        # As many queries as keys; one workgroup runs, of the first of them.
        q, out = (np.zeros((keys, self.head_dim), BF16) for _ in range(2))
        q[:ROWS] = given.q
        lse = np.zeros(keys, np.float32)
        shape = (1, keys, 1, self.head_dim)
        shapes = [(q, shape), (given.k, shape), (given.v, shape), (out, shape)]
        block = b"".join(
            struct.pack("<5Q8x", array.ctypes.data, *sizes)
            for array, sizes in [*shapes, (lse, (1, 1, 1, keys))]
        )
        buffers = [array.view(np.uint8).reshape(-1) for array in (q, given.k, given.v, out, lse)]
        (kernel,) = load(code).kernels
        report = run(
            code, kernel, (1, 1, 1), (512,), block, buffers=buffers,
            shared_mem=LDS, races="collect", **options,
        )  # fmt: skip
        return out[:ROWS].astype(np.float64), given.expected, report


class Ours:
    """A kernel of this project, as `rocke_cupy.attention` would choose it for a long call."""

    early = ()

    def __init__(self, head_dim):
        self.name, self.head_dim = f"ours bf16, D {head_dim}", head_dim

    def attend(self, keys, **options):
        """Return the output, what it should be, and the report of a launch."""
        given = operands("bf16", keys, self.head_dim)
        case = Case(ROWS, keys, 1, 1, self.head_dim, causal=False)
        arrays = [array[None, :, None] for array in (given.q, given.k, given.v)]
        out, _, report = attend_ours(case, arrays=arrays, fenced=False, **options)
        return out[0, :, 0].astype(np.float64), given.expected, report


AITER = [
    ("fmha_v3_fwd/fwd_hd128_bf16", "bf16", 128),
    ("fmha_v3_fwd/fwd_hd128_fp8", "fp8", 128),
    ("fmha_v3_fwd/fwd_hd256_fp8", "fp8", 256),
    ("fmha_v4_fwd/fwd_hd128_fp8", "fp8", 128),
    ("fmha_v4_fwd/fwd_hd128_i8fp8", "i8", 128),
    ("fmha_v4_fwd/fwd_hd128_mxfp8", "mx", 128),
]
"""Code objects whose operands are plain arrays; aiter packs those of fp6 and fp4 its own way."""


def kernels_in(folder):
    """Return the kernels of a folder, and what is missing."""
    found = [Aiter(folder, *each) for each in AITER]
    missing = [kernel.path for kernel in found if not kernel.path.exists()]
    found = [kernel for kernel in found if kernel.path.exists()]
    compiled = sorted((folder / "triton").glob("*.co"))
    if not compiled:
        missing.append(folder / "triton" / "*.co")
    kittens = [folder / name for name in NEEDED]
    missing += [path for path in kittens if not path.exists()]
    if all(path.exists() for path in kittens):
        found += [HipKittens(folder, head_dim) for head_dim in (64, 128)]
    return [*map(Ours, (64, 128, 256)), *found, *map(Triton, compiled)], missing


_HEAD = (
    f"{'64 keys of the loop':<42}{'cycles':>7}{'mfma':>7}{'valu':>7}{'exp':>6}{'lds':>6}{'wait':>6}"
)


def line_of(kernel, keys):
    """Measure a kernel and return its row of the table.

    "Early" are instructions that read what no wait covers; they were given one.
    """
    out, expected, short = kernel.attend(keys, timing=True)
    _, _, long = kernel.attend(2 * keys, timing=True)
    tiles = keys / TILE
    mix = mix_between(short, long, tiles * WAVES)
    pace = short.timing.between(long.timing, tiles)
    error = np.sqrt(np.mean((out - expected) ** 2) / np.mean(expected**2))
    text = f"{kernel.name:<42}{pace.cycles:7,.0f}{mix.kinds['mfma']:7.1f}{mix.kinds['valu']:7.1f}"
    text += f"{mix.kinds['trans']:6.1f}{mix.kinds['lds_read']:6.1f}{mix.kinds['waitcnt']:6.1f}"
    text += f"  {error:.2e} from NumPy"
    if kernel.early:
        text += f"; {len(kernel.early)} times early"
    if getattr(short, "races", None):
        text += f"; {len(short.races)} LDS races"
    return text


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--triton", metavar="PYTHON", help="an interpreter that has Triton")
    parser.add_argument("--keys", type=int, default=1024)
    options = parser.parse_args()
    if options.triton:
        target = options.folder / "triton"
        target.mkdir(parents=True, exist_ok=True)
        script = Path(__file__).with_name("foreign_triton.py")
        subprocess.run([options.triton, script, target], check=True)
    kernels, missing = kernels_in(options.folder)
    for path in missing:
        print(f"not there: {path}")
    print(_HEAD)
    for kernel in kernels:
        print(line_of(kernel, options.keys), flush=True)


if __name__ == "__main__":
    main()

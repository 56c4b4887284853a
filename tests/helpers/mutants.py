"""Kernels to break, inputs that reach all of their code, and what counts as noticing a fault."""

import functools
import re
from dataclasses import dataclass, field

import numpy as np

from helpers.budget import budget, worst
from helpers.emulated import spec_for
from helpers.fences import Fenced
from helpers.problems import DTYPES, Case, visible
from helpers.source_mutations import FENCE, SOURCE_KINDS, SOURCE_MUTATIONS
from rocke_cupy import attention_dense_block, attention_dense_grid, build_attention_dense
from rocke_cupy.emulator import EmulationError, load, run
from rocke_cupy.emulator.mutate import mutate, mutations
from rocke_cupy.emulator.program.code_object import CodeObject
from rocke_cupy.gpu.launch import element_strides, pack_shape
from rocke_cupy.rules.masks import check_masks
from rocke_cupy.tools.block import compiled

MODES = (
    ("lazy", "lockstep"),
    ("eager", "to_barrier"),
    ("lazy", "to_barrier"),
    ("lazy", "random"),
    ("eager", "lockstep"),
    ("eager", "random"),
)
"""Ways to run, those first that notice most."""


@dataclass(frozen=True)
class Packed:
    """Lengths of packed sequences; ``spare`` rows of the arrays belong to none."""

    lengths_q: tuple[int, ...]
    lengths_kv: tuple[int, ...]
    spare: int = 3


@dataclass(frozen=True)
class Problem:
    """One launch: a case, or packed sequences with the heads and masks of a case."""

    case: Case
    packed: Packed | None = None
    with_lse: bool = True
    fields: dict = field(default_factory=dict, hash=False)

    def __str__(self):
        """Name it in tables."""
        lengths = f" {self.packed.lengths_q}x{self.packed.lengths_kv}" if self.packed else ""
        return f"{self.case}{lengths}{'' if self.with_lse else ' no LSE'}"

    @functools.cached_property
    def spec(self):
        """The spec that a user would write."""
        changes = dict(self.fields)
        if self.packed:
            longest = max(self.packed.lengths_q), max(self.packed.lengths_kv)
            sequences = len(self.packed.lengths_q) + 1
            changes.update(varlen=True, batch=sequences, seqlen_q=longest[0], seqlen_kv=longest[1])
        return spec_for(self.case, **changes)

    @functools.cached_property
    def inputs(self):
        """q, k, v inside NaN."""
        arrays = self.case.arrays()
        if self.packed:
            arrays = [a[0] for a in arrays]
        return [Fenced(a) for a in arrays]

    def sequences(self):
        """Yield the index of each sequence's queries and of its keys, and which keys are seen."""
        case = self.case
        if not self.packed:
            for b in range(case.batch):
                yield (b,), (b,), case.visible(b)
            return
        q_start = kv_start = 0
        for q, kv in zip(self.packed.lengths_q, self.packed.lengths_kv, strict=True):
            rows, keys = slice(q_start, q_start + q), slice(kv_start, kv_start + kv)
            yield (rows,), (keys,), visible(q, kv, kv, case.causal, case.window, case.alignment)
            q_start, kv_start = q_start + q, kv_start + kv

    @functools.cached_property
    def expected(self):
        """Exact result and allowed error, for each sequence and head."""
        case, found = self.case, []
        q, k, v = (f.array.astype(np.float64) for f in self.inputs)
        scale = case.scale if case.scale is not None else case.head_dim**-0.5
        out_dtype = np.float32 if self.spec.float32_out else DTYPES[case.dtype]
        for rows, keys, sees in self.sequences():
            for h in range(case.heads):
                kv = h // (case.heads // case.kv_heads)
                one = [q[rows][:, h], k[keys][:, kv], v[keys][:, kv]]
                exact = budget(*one, scale, sees, DTYPES[case.dtype], out_dtype)
                found.append((rows, h, exact.out, exact.allowed))
        return found

    def within_budget(self, out, lse):
        """Tell whether a result is right."""
        if self.spec.num_splits > 1:
            if not self.with_lse:
                return True  # parts that nothing can join: only their bits are compared
            out = _merged(out, lse)
        return all(
            worst(out[rows][:, h], exact, allowed)[0] <= 1
            for rows, h, exact, allowed in self.expected
        )

    def launch(self, code, name, **options):
        """Run a code object; return out, LSE and the report."""
        spec, case = self.spec, self.case
        q, k, v = (f.array for f in self.inputs)
        splits = (spec.num_splits,) if spec.num_splits > 1 else ()
        out_dtype = np.float32 if spec.float32_out else DTYPES[case.dtype]
        heads_first = (
            (case.heads, len(q)) if self.packed else (case.batch, case.heads, case.seqlen_q)
        )
        out_fence = Fenced.empty((*splits, *q.shape), out_dtype)
        lse_fence = Fenced.empty((*splits, *heads_first), np.float32)
        out, lse = out_fence.array, lse_fence.array
        axes = (-1, 0, 1) if self.packed else (0, 1, 2)
        one = {"q": q, "k": k, "v": v, "o": out[0] if splits else out}
        tokens, grid = q.shape[axes[1]], attention_dense_grid(spec)
        shape = pack_shape(
            strides={n: element_strides(a, axes) for n, a in one.items()},
            masks=check_masks(case.causal, case.window, case.alignment, case.offset),
            lse_batch=0 if self.packed else case.heads * tokens,
            lse_head=tokens,
            o_split=out.strides[0] // out.itemsize if splits else 0,
            lse_split=lse.strides[0] // 4 if splits else 0,
            batch=spec.batch,
            seqlen_q=spec.seqlen_q,
            seqlen_kv=spec.seqlen_kv if self.packed else k.shape[1],
            kv_heads=case.kv_heads,
            group=spec.num_queries_per_kv,
            query_blocks=spec.num_query_blocks,
            num_splits=spec.num_splits,
            num_workgroups=int(np.prod(grid)),
            total_q=tokens,
        )
        scale = np.float32(case.scale if case.scale is not None else case.head_dim**-0.5)
        lengths = None if case.kv_lens is None else np.array(case.kv_lens, np.int32)
        arguments = [q, k, v, out, scale, *self._starts(), lengths]
        arguments += [lse if self.with_lse else None, np.asarray(shape)]
        options.update(threads=1, equal_barriers=True)
        report = run(code, name, grid, attention_dense_block(spec), arguments, **options)
        out_fence.assert_fence_intact()
        lse_fence.assert_fence_intact()
        return out, lse, report

    def _starts(self):
        if not self.packed:
            return [None, None]
        both = self.packed.lengths_q, self.packed.lengths_kv
        return [np.cumsum([0, *lengths]).astype(np.int32) for lengths in both]


def _merged(out, lse):
    """Join the results of all splits, in float64."""
    out, lse = out.astype(np.float64), np.moveaxis(lse.astype(np.float64), 2, 3)[..., None]
    top = lse.max(axis=0, keepdims=True)
    weights = np.exp(lse - np.where(np.isinf(top), 0, top))
    total = weights.sum(axis=0)
    return (np.where(weights > 0, out, 0) * weights).sum(axis=0) / np.where(total == 0, 1, total)


@dataclass(frozen=True)
class Kernel:
    """A variant of the kernel with problems that together reach all of its code."""

    title: str
    problems: tuple[Problem, ...]

    def compiled(self, rocm="7.0"):
        """Return the kernel's name and code object."""
        specs = {compiled(p.spec, rocm) for p in self.problems}
        (found,) = specs
        return found


SAME_CODE, SAME_ORDER = NO_FAULT = "same code", "same order"
"""What a change of the source may come to: no fault in the code that could be noticed."""
BINARY = "binary"
KINDS = (BINARY, *SOURCE_KINDS)
"""Of mutants: waits weakened and barriers removed in the code object, and changes of the source."""


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: `noticed` is empty if nothing was noticed.

    ``index`` is that of the changed instruction, if the fault is in the code object.
    """

    kind: str
    where: str
    change: str
    noticed: str
    index: int = -1


class Judge:
    """Runs a kernel's mutants and says what noticed each.

    Parameters
    ----------
    kernel : Kernel
    rocm : str
        hipRTC version.
    """

    def __init__(self, kernel, rocm="7.0"):
        self.kernel, self.rocm = kernel, rocm
        self.name, self.code = kernel.compiled(rocm)
        self.executed = 0
        self._clean = []
        for problem in kernel.problems:
            out, lse, report = problem.launch(self.code, self.name)
            assert problem.within_budget(out, lse), f"the intact kernel is wrong for {problem}"
            assert not report.unwritten_reads.any(), f"it reads unwritten LDS for {problem}"
            self.executed = self.executed + report.per_instruction
            self._clean.append((out, lse))

    def check_clean(self):
        """Assert that the intact kernel is silent, and gives the same bits, in all modes."""
        for memory, schedule in MODES:
            noticed = self._in_mode(self.code, memory, schedule)
            assert not noticed, f"the intact kernel in {memory} {schedule}: {noticed}"

    def noticed(self, code):
        """Return how a broken code object is noticed, or an empty string.

        The kind of the emulator's error, or "canary", "unwritten LDS", "result" (outside its
        budget); "bits" only if all that is wrong is that a result within its budget has changed.
        """
        weak = ""
        for memory, schedule in MODES:
            found = self._in_mode(code, memory, schedule)
            if found and found != "bits":
                return found
            weak = weak or found
        return weak

    def outcomes(self, kinds=KINDS):
        """Yield an Outcome for each mutant of some kinds."""
        if BINARY in kinds:
            program = load(self.code)
            for mutation in mutations(program, self.name):
                text = program.instructions[mutation.index].text
                where = f"+{mutation.offset - program.kernels[self.name].entry:#x} {text}"
                found = self.noticed(mutate(self.code, mutation))
                yield Outcome(text.split()[0], where, mutation.change, found, mutation.index)
        source = build_attention_dense(self.kernel.problems[0].spec)
        for mutation in SOURCE_MUTATIONS:
            if mutation.kind not in kinds or not mutation.applies(source.code):
                continue
            code = mutation.compiled(source.code, source.options, self.rocm)
            yield Outcome(
                mutation.kind, "source", mutation.title, self.came_to(mutation.kind, code)
            )

    def came_to(self, kind, code):
        """Return how the code of a changed source is noticed, or why there is no fault in it."""
        if CodeObject(code).text == CodeObject(self.code).text:
            return SAME_CODE
        found = self.noticed(code)
        if not found and kind == FENCE and _order(code) == _order(self.code):
            return SAME_ORDER  # and a register used before its wait would have been noticed
        return found

    def _in_mode(self, code, memory, schedule):
        weak = ""
        for problem, (out, lse) in zip(self.kernel.problems, self._clean, strict=True):
            options = dict(memory=memory, schedule=schedule, max_instructions=1_000_000)
            try:
                new_out, new_lse, report = problem.launch(code, self.name, **options)
            except EmulationError as error:
                return error.kind
            except AssertionError:
                return "canary"
            if report.unwritten_reads.any():
                return "unwritten LDS"
            if not (_same(out, new_out) and _same(lse, new_lse)):
                if not problem.within_budget(new_out, new_lse):
                    return "result"
                weak = "bits"
        return weak


_ORDERED = ("s_waitcnt", "s_barrier", "ds_", "buffer_", "global_")


def _order(code):
    """List what a fence orders: accesses to memory, waits and barriers.

    Registers are left out; offsets and counts tell the accesses and the waits apart.
    """
    found = []
    for instruction in load(code).instructions:
        if instruction.mnemonic.startswith(_ORDERED):
            words = re.split(r"[ ,]+", instruction.text)
            found.append([words[0], *(w for w in words[1:] if re.match(r"offset|vmcnt|lgkm", w))])
    return found


def _same(a, b):
    bits = f"u{a.itemsize}"
    return np.array_equal(np.ascontiguousarray(a).view(bits), np.ascontiguousarray(b).view(bits))

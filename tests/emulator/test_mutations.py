"""Faults planted in the attention kernels: the checks notice them, and stay silent without them.

All faults of all variants: ``python -m pytest -m slow tests/emulator/test_mutations.py``, or
benchmarks/mutation_score.py for the score. docs/mutation.md explains those that nothing notices.
"""

import re

import numpy as np
import pytest
from helpers.kernels_to_break import KERNELS
from helpers.mutants import MODES, SAME_CODE, SAME_ORDER, Judge
from helpers.source_mutations import ADDRESS, FENCE, SOURCE_MUTATIONS

from rocke_cupy import build_attention_dense
from rocke_cupy.emulator import EmulationError, hiprtc, load, run
from rocke_cupy.emulator.mutate import mutate, mutations
from rocke_cupy.emulator.program.waits import Wait

BY_TITLE = {k.title: k for k in KERNELS}
ROCM = ("7.0", "7.14")


def is_harmless(judge, outcome):
    """Tell whether a fault is one of those that docs/mutation.md explains."""
    spec = judge.kernel.problems[0].spec
    if spec.head_size > 128:  # a later wait covers the reads of LDS in time
        return outcome.change.startswith("lgkmcnt")
    if spec.pack_gqa or (spec.block_n == 128 and spec.head_size > 64):
        # Lanes load the query themselves: the next wait covers its last loads in time.
        code = load(judge.code).instructions
        first_barrier = next(i.index for i in code if i.text == "s_barrier")
        return "-> vmcnt" in outcome.change and outcome.index == first_barrier - 1
    return False


@pytest.fixture(scope="module")
def judge():
    return Judge(BY_TITLE["d64 bf16 causal"])


def source_of(judge):
    return build_attention_dense(judge.kernel.problems[0].spec)


def planted(judge, title, without=""):
    """Return what notices a fault of the source, by its title, less another part of the source."""
    (mutation,) = (m for m in SOURCE_MUTATIONS if m.title == title)
    source = source_of(judge)
    assert without in source.code
    code = source.code.replace(without, "") if without else source.code
    return judge.came_to(mutation.kind, mutation.compiled(code, source.options))


class TestNamedFaults:
    """The five faults that the virtual device was asked to catch, in the compiled kernel."""

    def changed(self, judge, what):
        program = load(judge.code)
        inside = [
            m for m in mutations(program, judge.name) if what(program.instructions[m.index].text, m)
        ]
        assert inside
        return [judge.noticed(mutate(judge.code, m)) for m in inside]

    def test_a_vmcnt_wait_loosened_by_two(self, judge):
        def by_two(text, mutation):
            return re.fullmatch(r"vmcnt\((\d+)\) -> vmcnt\((\d+)\)", mutation.change) and (
                Wait.of(mutation.word & 0xFFFF).vmcnt == int(re.search(r"\((\d+)", text)[1]) + 2
            )

        found = self.changed(judge, by_two)
        assert len(found) >= 8
        assert set(found) <= {"race", "early"}

    def test_a_barrier_removed(self, judge):
        found = self.changed(judge, lambda text, mutation: text == "s_barrier")
        assert len(found) >= 16
        assert set(found) <= {"race", "barrier"}

    # The rest behind the last matrix instruction holds the compiler back as well: with it, the
    # order is the same without the pins.
    @pytest.mark.parametrize(
        ("title", "without", "by"),
        [
            ("fragments not pinned below their wait", "rest<mfma_result_states>();", "early"),
            ("reads of V sunk past the barrier", "", "race"),
        ],
    )
    def test_a_compiler_fence_removed(self, judge, title, without, by):
        assert planted(judge, title, without) == by

    @pytest.mark.parametrize("title", [m.title for m in SOURCE_MUTATIONS if m.kind == ADDRESS])
    def test_an_lds_address_off_by_one_row(self, judge, title):
        assert planted(judge, title) in ("result", "race", "lds_bounds")

    @pytest.mark.parametrize("title", ["buffer one row too long", "buffer one row too short"])
    def test_a_bound_off_by_one_row(self, judge, title):
        assert planted(judge, title) in ("bounds", "result")


# A load that no fence holds is sunk to its use, past the barrier. In the attention kernels reads of
# LDS are assembly, which the compilers keep in place; this one leaves them to the compiler.
FENCED = """
extern "C" __global__ __launch_bounds__(128)
void fenced(const float* in, float* out, int steps, float limit) {
    __shared__ float tile[128];
    const int t = threadIdx.x;
    float sum = 0;
    tile[t] = in[t];
    __builtin_amdgcn_s_waitcnt(0x70);
    FENCE __builtin_amdgcn_s_barrier(); FENCE
    for (int step = 0; step < steps; step++) {
        const float x = tile[127 - t];
        __builtin_amdgcn_s_waitcnt(0xc07f);
        FENCE __builtin_amdgcn_s_barrier(); FENCE
        if (__builtin_expect(__builtin_amdgcn_ballot_w64(sum > limit) != 0, 0)) sum *= 0.5f;
        sum += x;
        tile[t] = in[128 * (step + 1) + t];
        __builtin_amdgcn_s_waitcnt(0x70);
        FENCE __builtin_amdgcn_s_barrier(); FENCE
    }
    out[t] = sum;
}
"""


@pytest.mark.parametrize(("memory", "schedule"), MODES)
class TestFenceAroundABarrier:
    def launch(self, fence, memory, schedule):
        code = hiprtc.compile(FENCED.replace("FENCE", fence), ["-O3"], rocm="7.0").code
        data, out = np.arange(512, dtype=np.float32), np.zeros(128, np.float32)
        arguments = [data, out, np.int32(3), np.float32(1e9)]
        run(code, "fenced", (1,), (128,), arguments, memory=memory, schedule=schedule)
        np.testing.assert_array_equal(out, data.reshape(4, 128)[:3, ::-1].sum(axis=0))

    def test_with_it_the_kernel_is_clean(self, memory, schedule):
        self.launch('asm volatile("" ::: "memory");', memory, schedule)

    def test_without_it_the_race_is_reported(self, memory, schedule):
        with pytest.raises(EmulationError, match="LDS race"):
            self.launch("", memory, schedule)


def test_every_planted_fault_is_still_in_the_source():
    sources = [build_attention_dense(k.problems[0].spec).code for k in KERNELS]
    for mutation in SOURCE_MUTATIONS:
        broken = {mutation.applied(s) for s in sources if mutation.applies(s)}
        assert broken, f"no kernel has the text of {mutation.title!r}: the sources have moved on"


def test_a_sample_is_noticed(judge):
    rng = np.random.default_rng(6)
    program = load(judge.code)
    tried = rng.permutation(mutations(program, judge.name))[:24]
    silent = [
        f"{program.describe(m.index)} => {m.change}"
        for m in tried
        if not judge.noticed(mutate(judge.code, m))
    ]
    assert silent == []


class TestJudge:
    """What is noticed if no check of the emulator fails: the result itself."""

    def broken(self, judge, factor):
        source = source_of(judge)
        old = "row_sum == 0 ? 0.f : reciprocal(row_sum);"
        assert source.code.count(old) == 1
        text = source.code.replace(old, f"row_sum == 0 ? 0.f : reciprocal(row_sum) * {factor};")
        return hiprtc.compile(text, source.options).code

    def test_the_intact_kernel_is_silent(self, judge):
        judge.check_clean()
        assert judge.noticed(judge.code) == ""

    def test_a_wrong_result(self, judge):
        assert judge.noticed(self.broken(judge, "1.02f")) == "result"

    def test_another_rounding(self, judge):
        assert judge.noticed(self.broken(judge, "0.9999f")) == "bits"

    def test_a_fence_without_which_the_order_is_the_same(self, judge):
        assert judge.came_to(FENCE, judge.code) == SAME_CODE
        assert planted(judge, "memory fence before the barrier") == SAME_ORDER
        assert planted(judge, "scheduling fence before the barrier") == SAME_ORDER

    def test_the_problems_reach_all_waits_and_barriers(self, judge):
        program = load(judge.code)
        missed = [
            program.describe(m.index)
            for m in mutations(program, judge.name)
            if not judge.executed[m.index]
        ]
        assert missed == []


@pytest.fixture
def only_when_asked_for(request):
    if "slow" not in request.config.getoption("markexpr"):
        pytest.skip("takes minutes for each kernel; run it by -m slow")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rocm", ROCM)
@pytest.mark.parametrize("title", BY_TITLE)
def test_all_faults_are_noticed(only_when_asked_for, title, rocm):
    judge = Judge(BY_TITLE[title], rocm)
    judge.check_clean()
    silent = [o for o in judge.outcomes() if not o.noticed and not is_harmless(judge, o)]
    assert silent == []

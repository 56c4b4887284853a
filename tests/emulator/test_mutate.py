"""Mutations of a small kernel: what they change in the code, and which a check notices."""

import numpy as np
import pytest

from rocke_cupy.emulator import hiprtc, load, run
from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.mutate import main, mutate, mutations, survivors

# Two waves exchange their halves through LDS.
SOURCE = """
extern "C" __global__ __launch_bounds__(128) void exchange(const float* in, float* out) {
    __shared__ float tile[128];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = tile[127 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def code():
    return hiprtc.compile(SOURCE).code


def check(code):
    data, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run(code, "exchange", (1,), (128,), [data, out], threads=1)
    np.testing.assert_array_equal(out, data[::-1])


@pytest.mark.parametrize(
    ("first", "second", "weakened"),
    [
        ("lgkmcnt(2)", "lgkmcnt(1)", {"lgkmcnt(1)"}),
        ("lgkmcnt(2)", "lgkmcnt(3)", {"lgkmcnt(2)", "lgkmcnt(3)"}),
        ("vmcnt(4)", "lgkmcnt(0)", {"vmcnt(4)", "lgkmcnt(0)"}),
        ("vmcnt(4) lgkmcnt(1)", "lgkmcnt(0)", {"vmcnt(4)", "lgkmcnt(0)"}),
    ],
)
def test_a_wait_is_left_alone_if_the_next_instruction_repeats_it(first, second, weakened):
    code = assemble_kernel("k", f"s_waitcnt {first}\ns_waitcnt {second}\ns_endpgm")
    assert {m.change.partition(" ")[0] for m in mutations(load(code), "k")} == weakened


def test_one_instruction_changes(code):
    intact = load(code).instructions
    for mutation in mutations(load(code), "exchange"):
        broken = load(mutate(code, mutation)).instructions
        assert [i.offset for i in broken] == [i.offset for i in intact]
        changed = [i.index for i, j in zip(intact, broken, strict=True) if i.text != j.text]
        assert changed == [mutation.index]


def test_what_is_mutated(code):
    text = [load(code).instructions[m.index].text for m in mutations(load(code), "exchange")]
    assert text.count("s_barrier") == 1
    # Arguments, data from memory, data in LDS before the barrier, data from LDS: three each.
    assert sum(t.startswith("s_waitcnt") for t in text) >= 12


def test_all_are_noticed(code):
    silent, tried = survivors(code, "exchange", check)
    assert tried >= 13
    assert silent == []


def test_a_check_that_looks_at_nothing_notices_nothing(code):
    silent, tried = survivors(code, "exchange", lambda code: None)
    assert len(silent) == tried


def test_a_check_must_pass_on_the_intact_kernel(code):
    def never(code):
        raise AssertionError("never right")

    with pytest.raises(AssertionError, match="never right"):
        survivors(code, "exchange", never)


def test_command(code, tmp_path, capsys):
    file = tmp_path / "kernel.co"
    file.write_bytes(code)
    assert main([str(file)]) == 0
    printed = capsys.readouterr().out
    assert "s_barrier removed" in printed
    assert "vmcnt(0) -> no wait" in printed
    assert main([]) == 2

"""What benchmarks/foreign_kernels.py does to code objects and operands before it runs kernels."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import foreign_hipkittens
import foreign_kernels as foreign

from rocke_cupy.emulator import EmulationError, hiprtc, load, run
from rocke_cupy.emulator.assemble import assemble_kernel

EARLY = """
  v_lshlrev_b32_e32 v1, 4, v0
  ds_write_b32 v1, v0
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  ds_read_b32 v2, v1
  ds_read_b32 v3, v1
  s_waitcnt lgkmcnt(2)
  v_add_u32_e32 v2, v2, v3
  v_lshlrev_b32_e32 v1, 2, v0
  global_store_dword v1, v2, s[4:5]
  s_endpgm
"""


def test_early_reads_get_a_wait_and_are_told():
    out = np.zeros(64, np.uint32)
    code = assemble_kernel("k", EARLY, lds_size=1024)
    code, early = foreign.with_enough_waits(
        code, lambda c: run(c, "k", (1,), (64,), [out], races=False)
    )
    assert ["early read of v2" in text for text in early] == [True]
    np.testing.assert_array_equal(out, 2 * np.arange(64))


def test_other_faults_are_not_hidden():
    code = assemble_kernel("k", "s_trap 2\ns_endpgm")
    with pytest.raises(EmulationError, match="trapped"):
        foreign.with_enough_waits(
            code, lambda c: run(c, "k", (1,), (64,), [np.zeros(1, np.uint32)])
        )


def test_one_register_file():
    body = EARLY.replace("lgkmcnt(2)", "lgkmcnt(0)").replace("v3", "v40")
    code = assemble_kernel("k", body, lds_size=1024, vgprs=64, accum_offset=32)
    out = np.zeros(64, np.uint32)
    with pytest.raises(EmulationError, match="past the kernel's allocation"):
        run(code, "k", (1,), (64,), [out])
    run(foreign.one_register_file(code, "k"), "k", (1,), (64,), [out])
    np.testing.assert_array_equal(out, 2 * np.arange(64))


@pytest.mark.parametrize(("kind", "most"), [("bf16", 2**-8), ("fp8", 2**-4), ("mx", 2**-4)])
def test_operands_mean_about_what_was_drawn(kind, most):
    given = foreign.operands(kind, 64, 128)
    drawn = np.random.default_rng(0)
    for rows, meaning in zip((foreign.ROWS, 64, 64), given.meaning, strict=True):
        numbers = drawn.standard_normal((rows, 128))
        assert (np.abs(meaning - numbers) <= most * np.abs(numbers) + 1e-3).all()


def test_int8_operands_are_within_half_a_step():
    given = foreign.operands("i8", 64, 128)
    numbers = np.random.default_rng(0).standard_normal((foreign.ROWS, 128))
    assert np.abs(given.meaning[0] - numbers).max() <= 0.5001 * given.scales[0]
    assert given.q.dtype == np.int8


def test_the_expected_result_is_attention():
    given = foreign.operands("bf16", 64, 128)
    q, k, v = given.meaning
    weights = np.exp(q[3] @ k.T / np.sqrt(128))
    np.testing.assert_allclose(given.expected[3], weights / weights.sum() @ v)


def test_what_is_missing_is_said(tmp_path):
    kernels, missing = foreign.kernels_in(tmp_path)
    assert [type(kernel).__name__ for kernel in kernels] == ["Ours"] * 3
    names = {path.relative_to(tmp_path).parts[0] for path in missing}
    assert names == {"aiter", "triton", "HipKittens", "HIP", "clr"}


KITTENS = """#include "kittens.cuh"
#include "pyutils/pyutils.cuh"
template<int D> struct attn_globals {
    float* out;
    hipStream_t stream;
    dim3 grid() { return dim3(1); }
};
template<int D> __global__ void attend_ker(const attn_globals<D> g) { g.out[0] = D; }

template<int D>
void dispatch_micro(attn_globals<D> g) { attend_ker<D><<<1, 1>>>(g); }
"""


def test_kernels_are_taken_out_of_hipkittens_source():
    text = foreign_hipkittens.kernel_source(KITTENS)
    wanted = ["type_traits", "common/common.cuh", "types/types.cuh", "ops/ops.cuh"]
    assert [line for line in text.splitlines() if "#include" in line] == [
        f"#include <{name}>" for name in wanted
    ]
    body = "\n".join(line for line in text.splitlines() if "#include" not in line)
    code = hiprtc.compile(body, ["-DATTN_D=64"]).code
    (kernel,) = load(code).kernels
    out = np.zeros(1, np.float32)
    run(code, kernel, (1,), (1,), [out])
    assert out[0] == 64

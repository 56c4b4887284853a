"""Vector registers that M0 chooses: by hand, and as both compilers index vectors."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, hiprtc, run
from rocke_cupy.emulator.assemble import assemble_kernel

FIRST = 10  # v10 to v17 hold 100 to 107


def result_of(body: str, at: int = 3) -> np.ndarray:
    """Run a body that leaves its result in v2; s6 is `at`."""
    fill = "\n".join(f"  v_mov_b32 v{FIRST + k}, 0x{100 + k:x}" for k in range(8))
    out = np.zeros(64, np.uint32)
    text = f"""
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_mov_b32 s6, {at}
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v2, 0
{fill}
  s_waitcnt lgkmcnt(0)
{body}
  global_store_dword v1, v2, s[4:5]
  s_endpgm
"""
    run(assemble_kernel("k", text), "k", (1,), (64,), [out])
    return out


def test_sources_move():
    body = """
  s_set_gpr_idx_on s6, gpr_idx(SRC0)
  v_mov_b32 v2, v10
  s_set_gpr_idx_off"""
    assert set(result_of(body, at=3)) == {103}
    assert set(result_of(body, at=256 + 5)) == {105}  # eight bits count


def test_results_move_under_exec():
    body = """
  s_mov_b64 exec, 0xff
  s_set_gpr_idx_on s6, gpr_idx(DST)
  v_mov_b32 v10, v1
  s_set_gpr_idx_off
  s_mov_b64 exec, -1
  v_mov_b32 v2, v12"""
    expected = np.where(np.arange(64) < 8, 4 * np.arange(64), 102)
    np.testing.assert_array_equal(result_of(body, at=2), expected)
    assert set(result_of(body, at=3)) == {102}


def test_both_move_and_constants_do_not():
    body = """
  s_set_gpr_idx_on s6, gpr_idx(SRC0,DST)
  v_mov_b32 v11, v10
  s_nop 0
  v_mov_b32 v12, 7
  s_set_gpr_idx_off
  v_sub_u32 v2, v13, v14"""
    assert set(result_of(body, at=2)) == {102 - 7}


def test_index_and_mode_may_change():
    body = """
  s_mov_b32 m0, 0x7100
  s_set_gpr_idx_on s6, gpr_idx(DST)
  s_set_gpr_idx_mode gpr_idx(SRC0)
  s_set_gpr_idx_idx 4
  v_mov_b32 v2, v10
  s_set_gpr_idx_off
  v_mov_b32 v3, m0
  v_lshl_add_u32 v2, v3, 16, v2"""
    assert set(result_of(body, at=2)) == {0x1104 << 16 | 104}


def test_registers_past_the_kernels_own():
    body = """
  s_set_gpr_idx_on s6, gpr_idx(SRC0)
  v_mov_b32 v2, v10
  s_set_gpr_idx_off"""
    with pytest.raises(EmulationError, match="M0 moves v10 to v64, past the kernel's 64 registers"):
        result_of(body, at=54)


def test_registers_that_are_not_loaded_yet():
    body = """
  global_load_dword v13, v1, s[4:5]
  s_set_gpr_idx_on s6, gpr_idx(SRC0)
  v_mov_b32 v2, v10
  s_set_gpr_idx_off"""
    assert set(result_of(body, at=4)) == {104}
    with pytest.raises(EmulationError, match="early use of v13"):
        result_of(body, at=3)


@pytest.mark.parametrize(
    "text", ["v_add_u32 v2, v10, v1", "s_branch 0", "v_mov_b32 v2, v10 row_shl:1"]
)
def test_other_instructions_are_not_modelled(text):
    with pytest.raises(EmulationError, match="after s_set_gpr_idx_on"):
        result_of(f"  s_set_gpr_idx_on s6, gpr_idx(SRC0)\n  {text}\n  s_set_gpr_idx_off")


SOURCE = """
typedef float Vector __attribute__((ext_vector_type(16)));
extern "C" __global__ void scatter(const Vector* in, Vector* out, const int* at, int n) {
  Vector v = in[threadIdx.x];
  for (int k = 0; k < n; k++) v[at[k]] += v[at[k] ^ 1] + k;
  out[threadIdx.x] = v;
}
extern "C" __global__ void gather(const Vector* in, float* out, const int* at) {
  Vector v = in[threadIdx.x];
  out[threadIdx.x] = v[at[threadIdx.x]];
}
"""
ROCM = ("7.0", "7.14")


@pytest.mark.parametrize("rocm", ROCM)
def test_vectors_indexed_alike_in_all_lanes(rocm):
    rng = np.random.default_rng(1)
    vectors = rng.integers(-50, 50, (64, 16)).astype(np.float32)
    at, out = rng.integers(0, 16, 20).astype(np.int32), np.zeros((64, 16), np.float32)
    code = hiprtc.compile(SOURCE, rocm=rocm).code
    report = run(code, "scatter", (1,), (64,), [vectors, out, at, np.int32(20)])
    assert report.count("s_set_gpr_idx_on") > 0
    for k, place in enumerate(at):
        vectors[:, place] += vectors[:, place ^ 1] + k
    np.testing.assert_array_equal(out, vectors)


@pytest.mark.parametrize("rocm", ROCM)
def test_vectors_indexed_by_lane(rocm):
    rng = np.random.default_rng(2)
    vectors = rng.integers(-50, 50, (64, 16)).astype(np.float32)
    at, out = rng.integers(0, 16, 64).astype(np.int32), np.zeros(64, np.float32)
    run(hiprtc.compile(SOURCE, rocm=rocm).code, "gather", (1,), (64,), [vectors, out, at])
    np.testing.assert_array_equal(out, vectors[np.arange(64), at])

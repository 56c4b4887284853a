"""Counting instructions by kind: a kernel whose instructions are written down, at two lengths."""

import numpy as np
import pytest

from rocke_cupy.emulator import hiprtc, run
from rocke_cupy.emulator.mix import KINDS, kind_of, mix_between

pytestmark = pytest.mark.network

KERNEL = r"""
extern "C" __global__ void counted(float* out, int turns) {
  __shared__ float memory[4096];
  int lane = threadIdx.x;
  unsigned start = (unsigned)(__attribute__((address_space(3))) char*)memory;
  unsigned at = start + lane * 4, wide = start + lane * 256;
  memory[lane] = lane;
  memory[lane * 64] = lane;
  float x = lane, y;
  for (int i = 0; i < turns; i++) {
    asm volatile("v_exp_f32 %0, %0\n v_rcp_f32 %0, %0\n s_setprio 1\n"
                 "v_add_f32 %0, %0, %0" : "+v"(x));
    asm volatile("v_pk_mul_f32 v[40:41], v[40:41], v[40:41]" ::: "v40", "v41");
    asm volatile("s_nop 3\n s_nop 0");
    asm volatile("s_waitcnt vmcnt(0)\n s_waitcnt vmcnt(4) lgkmcnt(0)");
    asm volatile("ds_read_b32 %0, %1 offset:64\n s_waitcnt lgkmcnt(0)" : "=v"(y) : "v"(at));
    x += y;
    asm volatile("ds_read_b32 %0, %1\n s_waitcnt lgkmcnt(0)" : "=v"(y) : "v"(wide));
    x += y;
  }
  out[lane] = x;
}
"""


@pytest.fixture(scope="module")
def mix():
    code = hiprtc.compile(KERNEL, ("-O3",)).code
    out = np.zeros(64, np.float32)
    short, long = (run(code, "counted", (1,), (64,), [out, np.int32(n)]) for n in (3, 13))
    return mix_between(short, long, 10)


def test_each_turn_of_the_loop_executes_what_is_written_in_it(mix):
    counted = dict(trans=2, waitcnt=4, nop=2, setprio=1, lds_read=2, dma=0, mfma=0, barrier=0)
    assert {kind: mix.kinds[kind] for kind in counted} == counted
    assert mix.kinds["valu"] >= 4
    assert mix.mnemonics["v_exp_f32_e32"] == 1
    assert mix.total == sum(mix.mnemonics.values())


def test_waits_for_all_memory_and_wait_states_are_counted(mix):
    assert mix.vmcnt0 == 1
    assert mix.nop_states == 5


def test_lds_reads_have_their_bank_conflicts(mix):
    read = mix.lds_reads["ds_read_b32"]
    # The second one reads 64 rows of 256 bytes, all in one bank: 64 cycles in place of 1.
    assert (read.count, read.cycles, read.lost) == (2, 1, 63 / 2)
    assert read.immediate


def test_each_lds_read_is_told_with_its_own_conflicts(mix):
    even, clashing = mix.lds_sites
    assert even.offset < clashing.offset
    assert even.text.startswith("ds_read_b32")
    assert even.text.endswith("offset:64")
    assert (even.count, even.cycles, even.lost) == (1, 1, 0)
    assert (clashing.count, clashing.cycles, clashing.lost) == (1, 1, 63)


def test_computed_lds_addresses_are_told():
    moving = KERNEL.replace("x += y;", 'x += y; asm volatile("v_add_u32 %0, 4, %0" : "+v"(at));', 1)
    code = hiprtc.compile(moving, ("-O3",)).code
    out = np.zeros(64, np.float32)
    short, long = (run(code, "counted", (1,), (64,), [out, np.int32(n)]) for n in (3, 13))
    assert not mix_between(short, long, 10).lds_reads["ds_read_b32"].immediate


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("v_mfma_f32_32x32x16_bf16 v[0:15], v[16:19], v[20:23], 0", "mfma"),
        ("v_cvt_pk_bf16_f32 v0, v1, v2", "valu"),
        ("v_readfirstlane_b32 s0, v0", "valu"),
        ("v_log_f32_e32 v0, v1", "trans"),
        ("v_rsq_f32_e32 v0, v1", "trans"),
        ("buffer_load_dwordx4 v1, s[0:3], 0 offen lds", "dma"),
        ("buffer_load_dwordx4 v[0:3], v1, s[0:3], 0 offen", "vmem"),
        ("global_load_lds_dwordx4 v[0:1], off", "dma"),
        ("ds_read_b64_tr_b16 v[0:1], v2", "lds_read"),
        ("ds_write_b32 v0, v1", "lds_write"),
        ("s_load_dword s0, s[2:3], 0x0", "smem"),
        ("s_cbranch_scc0 65530", "salu"),
        ("s_setprio 1", "setprio"),
        ("s_nop 0", "nop"),
    ],
)
def test_the_kind_of_an_instruction(text, kind):
    assert kind in KINDS
    assert kind_of(text) == kind

"""Code objects: descriptors, metadata, loading, and what is refused."""

import numpy as np
import pytest

from rocke_cupy.emulator import assemble, hiprtc, load, run
from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.program.code_object import CodeObject, CodeObjectError

GLOBALS = """
__device__ int counter = 5;
__constant__ float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};
__device__ const float* where = table;
extern "C" __global__ __launch_bounds__(64) void use(float* out, int which) {
    if (threadIdx.x == 0) atomicAdd(&counter, 3);
    out[threadIdx.x] = where[which];
}
"""


def test_a_kernel_is_described():
    source = """
extern "C" __global__ __launch_bounds__(128) void scale(float* x, float by, short n) {
    __shared__ float tile[128];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < n) x[threadIdx.x] = by * tile[127 - threadIdx.x];
}
"""
    kernel = load(hiprtc.compile(source).code).kernels["scale"]
    assert kernel.name == "scale"
    assert kernel.lds_size == 512
    assert kernel.scratch_size == kernel.vgpr_spills == kernel.sgpr_spills == kernel.agprs == 0
    assert kernel.max_workgroup == 128
    assert [(a.kind, a.offset, a.size) for a in kernel.arguments[:3]] == [
        ("global_buffer", 0, 8),
        ("by_value", 8, 4),
        ("by_value", 12, 2),
    ]
    assert 0 < kernel.vgprs <= kernel.allocated_vgprs
    assert kernel.float_mode == 0xC0


def test_assembled_kernels_too():
    code = assemble_kernel("k", "s_endpgm", vgprs=100, accum_offset=60, lds_size=1000)
    kernel = load(code).kernels["k"]
    assert (kernel.accum_offset, kernel.allocated_vgprs, kernel.lds_size) == (60, 104, 1000)


def test_a_missing_last_byte_is_tolerated():
    code = assemble_kernel("k", "s_endpgm")
    assert load(code[:-1]).kernels.keys() == {"k"}


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"no code object" * 10])
def test_other_bytes_are_refused(code):
    with pytest.raises(CodeObjectError, match="not an ELF code object"):
        CodeObject(code)


def test_another_architecture_is_refused():
    code = bytearray(assemble_kernel("k", "s_endpgm"))
    code[0x30] = 0x4C  # gfx942
    with pytest.raises(CodeObjectError, match="not for gfx950"):
        CodeObject(bytes(code))


def test_globals_live_in_the_image_and_are_relocated():
    code = hiprtc.compile(GLOBALS).code
    out = np.zeros(64, np.float32)
    run(code, "use", (1,), (64,), [out, np.int32(3)])
    np.testing.assert_array_equal(out, 8.0)
    program = load(code)
    address, size = program.symbol_address("counter")
    assert size == 4
    start = program.image.ctypes.data
    assert program.image[address - start :][:4].view(np.int32)[0] == 8
    with pytest.raises(KeyError):
        program.symbol_address("nothing")


def test_preloaded_arguments():
    body = (
        "s_endpgm\n"
        + "s_nop 0\n" * 63
        + """
  v_lshlrev_b32_e32 v1, 2, v0
  global_store_dword v1, v0, s[2:3]
  s_endpgm
"""
    )
    out = np.zeros(64, np.uint32)
    code = preloading(body)
    run(code, "k", (1,), (64,), [out])
    np.testing.assert_array_equal(out, np.arange(64))


def preloading(body: str) -> bytes:
    """A kernel whose pointer arrives in s[2:3] and whose code starts 256 bytes in."""
    text = assemble._KERNEL.replace(
        "  .amdhsa_system_sgpr_workgroup_id_y 1",
        "  .amdhsa_user_sgpr_kernarg_preload_length 2\n  .amdhsa_system_sgpr_workgroup_id_y 1",
    )
    arguments = "    .args:\n      - {.offset: 0, .size: 8, .value_kind: global_buffer}"
    return assemble.assemble_code_object(
        text.format(
            name="k", body=body, lds_size=0, scratch_size=0, kernarg_size=8, vgprs=64,
            accum_offset=64, arguments=arguments, max_threads=64,
        )
    )  # fmt: skip

"""Kernels compiled for the emulator, each once a session."""

import functools

from rocke_cupy.emulator import hiprtc
from rocke_cupy.emulator.program import load


@functools.cache
def compile_source(source, rocm):
    """Return the name and the code object of a `KernelSource`."""
    return source.name, hiprtc.compile(source.code, source.options, rocm=rocm).code


def resources(source, rocm):
    """Return the metadata of a `KernelSource`: registers, spills, scratch and LDS."""
    name, code = compile_source(source, rocm)
    return load(code).kernels[name]


def assert_nothing_spilled(source, rocm):
    kernel = resources(source, rocm)
    spilled = (kernel.vgpr_spills, kernel.sgpr_spills, kernel.scratch_size)
    assert spilled == (0, 0, 0), (
        f"{source.name} on ROCm {rocm} spills {spilled[0]} vector and {spilled[1]} scalar "
        f"registers and has {spilled[2]} bytes of scratch"
    )

"""Kernels compiled for the emulator, each once a session."""

import functools

from rocke_cupy.emulator import hiprtc
from rocke_cupy.emulator.program import load
from rocke_cupy.emulator.rocm.tools import VERSIONS


@functools.cache
def compile_source(source, compiler):
    """Return the name and the code object of a `KernelSource`, by hipRTC of a ROCm or a clang."""
    which = {"rocm" if compiler in VERSIONS else "clang": compiler}
    return source.name, hiprtc.compile(source.code, source.options, **which).code


def resources(source, compiler):
    """Return the metadata of a `KernelSource`: registers, spills, scratch and LDS."""
    name, code = compile_source(source, compiler)
    return load(code).kernels[name]


def assert_nothing_spilled(source, compiler):
    kernel = resources(source, compiler)
    spilled = (kernel.vgpr_spills, kernel.sgpr_spills, kernel.scratch_size)
    assert spilled == (0, 0, 0), (
        f"{source.name} by {compiler} spills {spilled[0]} vector and {spilled[1]} scalar "
        f"registers and has {spilled[2]} bytes of scratch"
    )

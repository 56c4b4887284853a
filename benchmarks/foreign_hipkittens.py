"""Compile the forward attention kernels of HipKittens with hipRTC, for foreign_kernels.py.

Their source is written for hipcc, next to Python bindings. Here the kernel alone is taken from it,
the headers that hipRTC has built in are left out, and what the source needs of the standard library
is below.
"""

import re
import shutil
import tempfile
from pathlib import Path

from rocke_cupy.emulator import hiprtc

NEEDED = ("HipKittens", "HIP", "clr")
"""Checkouts in the folder: https://github.com/HazyResearch/HipKittens, /ROCm/HIP and /ROCm/clr."""

_BUILT_IN = [
    "hip/hip_runtime.h",
    "hip/amd_detail/amd_device_functions.h",
    "hip/amd_detail/amd_hip_atomic.h",
    "hip/amd_detail/amd_hip_runtime.h",
    "hip/amd_detail/amd_hip_vector_types.h",
    "hip/amd_detail/amd_warp_functions.h",
    "hip/amd_detail/hip_ldg.h",
    "hip/amd_detail/host_defines.h",
    "hip/amd_detail/math_fwd.h",
]
_STANDARD = ["bit", "concepts", "cstddef", "limits", "memory", "string", "type_traits"]
_STD = """
#pragma once
#define INFINITY __builtin_inff()
#define CHAR_MIN (-__SCHAR_MAX__ - 1)
#define CHAR_MAX __SCHAR_MAX__
#define SCHAR_MIN (-__SCHAR_MAX__ - 1)
#define SCHAR_MAX __SCHAR_MAX__
#define UCHAR_MAX (2 * __SCHAR_MAX__ + 1)
#define SHRT_MIN (-__SHRT_MAX__ - 1)
#define SHRT_MAX __SHRT_MAX__
#define USHRT_MAX (2 * __SHRT_MAX__ + 1)
namespace std {
using ::size_t;
using uintptr_t = __UINTPTR_TYPE__;
using uint64_t = __UINT64_TYPE__;
using nullptr_t = decltype(nullptr);
template <class A, class B> inline constexpr bool is_same_v = __is_same(A, B);
template <class T> using remove_reference_t = __remove_reference_t(T);
template <bool, class A, class> struct choice { using type = A; };
template <class A, class B> struct choice<false, A, B> { using type = B; };
template <bool C, class A, class B> using conditional_t = typename choice<C, A, B>::type;
template <bool, class> struct enabled {};
template <class T> struct enabled<true, T> { using type = T; };
template <bool C, class T = void> using enable_if_t = typename enabled<C, T>::type;
template <class T, T...> struct integer_sequence {};
template <size_t... I> using index_sequence = integer_sequence<size_t, I...>;
template <class T, T N>
using make_integer_sequence = __make_integer_seq<integer_sequence, T, N>;
template <size_t N> using make_index_sequence = make_integer_sequence<size_t, N>;
struct runtime_error { runtime_error(const char*) {} };
template <class To, class From>
__host__ __device__ constexpr To bit_cast(const From& from) { return __builtin_bit_cast(To, from); }
}
"""


def kernel_source(text):
    """Return the kernel of a source, without what its host needs."""
    kernel = text.partition("template<int D>\nvoid dispatch_micro")[0]
    kernel = re.sub(r'#include "(kittens|pyutils/pyutils)\.cuh"\n', "", kernel)
    kernel = re.sub(r".*\b(hipStream_t stream|dim3 (grid|block)\(\)).*\n", "", kernel)
    headers = ("type_traits", "common/common.cuh", "types/types.cuh", "ops/ops.cuh")
    return (
        "".join(f"#include <{name}>\n" for name in headers)
        + kernel
        + "template __global__ void attend_ker<ATTN_D>(const attn_globals<ATTN_D>);\n"
    )


def compile_forward(folder, head_dim, keys):
    """Compile full attention of one head: `keys` queries over as many keys.

    Parameters
    ----------
    folder : pathlib.Path
        Where the checkouts are.
    head_dim : {64, 128}
    keys : int

    Returns
    -------
    bytes
        The code object.
    """
    kittens = folder / "HipKittens"
    name = "kernel_d64.cpp" if head_dim == 64 else "kernel.cpp"
    text = (kittens / "kernels" / "attn" / "gqa" / name).read_text()
    sizes = {"B": 1, "H": 1, "H_KV": 1, "N": keys, "D": head_dim}
    with tempfile.TemporaryDirectory() as directory:
        headers = _headers(folder, Path(directory))
        includes = [headers, headers / "hip", kittens / "include"]
        options = ["-std=c++20", "-w", "-ffast-math", "-DKITTENS_CDNA4"]
        options += ["-DHIP_ENABLE_WARP_SYNC_BUILTINS"]
        options += [f"-DATTN_{key}={value}" for key, value in sizes.items()]
        options += [f"-I{path}" for path in includes]
        return hiprtc.compile(kernel_source(text), options, rocm="7.0").code


def _headers(folder, target):
    """Write the headers of HIP that hipRTC lacks, and our part of the standard library."""
    for each in (folder / "HIP" / "include", folder / "clr" / "hipamd" / "include"):
        shutil.copytree(each, target, dirs_exist_ok=True)
    for name in _BUILT_IN:
        (target / name).write_text("")
    for name in _STANDARD:
        (target / name).write_text("#include <std.h>\n")
    (target / "std.h").write_text(_STD)
    return target

"""Plain HIP kernels without inline assembly: the compiler alone keeps the rules of the hardware."""

import functools
from dataclasses import dataclass
from pathlib import Path

from rocke_cupy.emulator import hiprtc

_FOLDER = Path(__file__).with_name("plain")

_OF_ONE = (
    "sqrt", "rsqrt", "exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "expm1", "sin", "cos",
    "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
    "lgamma", "tgamma", "cbrt", "floor", "round", "rint",
)  # fmt: skip
_OF_TWO = ("pow", "fmod", "atan2", "hypot", "copysign", "nextafter", "fdim")
ELEMENTS = {
    "float": "float", "double": "double", "int": "int", "int64": "long long",
    "uint8": "unsigned char", "float16": "_Float16", "bfloat16": "__bf16",
}  # fmt: skip


@dataclass(frozen=True)
class Plain:
    """A translation unit: its file and what its macros are."""

    name: str
    file: str
    macros: tuple[str, ...]

    def code(self, rocm: str) -> bytes:
        """Return the code object."""
        source = (_FOLDER / self.file).read_text()
        options = ["-O3", *(f"-D{macro}" for macro in self.macros)]
        return _compile(source, tuple(options), rocm)


@functools.cache
def _compile(source, options, rocm):
    return hiprtc.compile(source, options, rocm=rocm).code


def _functions():
    for element, suffix in (("float", "f"), ("double", "")):
        calls = {
            **{name: f"{name}{suffix}(a)" for name in _OF_ONE},
            **{name: f"{name}{suffix}(a,b)" for name in _OF_TWO},
            "divide": "a/b",
        }
        for name, call in calls.items():
            macros = (f"ELEMENT={element}", f"EXPRESSION={call}")
            yield Plain(f"{name}-{element}", "functions.hip", macros)


def _blocks():
    for name, element in ELEMENTS.items():
        yield Plain(f"blocks-{name}", "blocks.hip", (f"ELEMENT={element}",))


# Builtin, elements of A and B in a lane, elements of C.
_MATRICES = (
    ("f32_32x32x16_f16", "_Float16", 8, "float", 16),
    ("f32_32x32x16_bf16", "__bf16", 8, "float", 16),
    ("f32_16x16x32_f16", "_Float16", 8, "float", 4),
    ("f32_16x16x32_bf16", "__bf16", 8, "float", 4),
    ("f32_32x32x8f16", "_Float16", 4, "float", 16),
    ("f32_16x16x16f16", "_Float16", 4, "float", 4),
    ("f32_4x4x4f16", "_Float16", 4, "float", 4),
    ("f32_32x32x4f16", "_Float16", 4, "float", 32),
    ("f32_16x16x4f16", "_Float16", 4, "float", 16),
    ("f32_32x32x2f32", "float", 1, "float", 16),
    ("f32_16x16x4f32", "float", 1, "float", 4),
    ("f32_32x32x1f32", "float", 1, "float", 32),
    ("f32_4x4x1f32", "float", 1, "float", 4),
    ("f64_16x16x4f64", "double", 1, "double", 4),
    ("f64_4x4x4f64", "double", 1, "double", 1),
    ("i32_32x32x32_i8", "int", 4, "int", 16),
    ("i32_16x16x64_i8", "int", 4, "int", 4),
    # fp8 takes twice as long as fp4; the numbers are of the formats.
    ("scale_f32_32x32x64_f8f6f4", "int", 8, "float", 16, 0),
    ("scale_f32_16x16x128_f8f6f4", "int", 8, "float", 4, 0),
    ("scale_f32_32x32x64_f8f6f4", "int", 8, "float", 16, 4),
    ("scale_f32_16x16x128_f8f6f4", "int", 8, "float", 4, 4),
)


def _matrices():
    for builtin, inputs, in_count, outputs, out_count, *formats in _MATRICES:
        last = f"{formats[0]},{formats[0]},0,0,0,0" if formats else "0,0,0"
        macros = (
            f"IN={inputs}", f"IN_COUNT={in_count}", f"OUT={outputs}", f"OUT_COUNT={out_count}",
            f"PRODUCT(a,b,c)=__builtin_amdgcn_mfma_{builtin}(a,b,c,{last})",
        )  # fmt: skip
        yield Plain("-".join(["product", builtin, *map(str, formats)]), "matrices.hip", macros)


PLAIN = {unit.name: unit for unit in (*_functions(), *_blocks(), *_matrices())}
FEW = ("pow-float", "sin-double", "divide-double", "blocks-float", "blocks-uint8")
"""A selection for quick tests, beside some products."""

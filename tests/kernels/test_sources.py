"""The rules of kernels_src/README.md that can be checked by reading."""

import re

import pytest

from rocke_cupy.gpu import launch
from rocke_cupy.kernels import rows
from rocke_cupy.kernels.source import kernels_src
from rocke_cupy.kernels.variant import KernelVariant

ORDER = ("common", "isa", "tile", "parts", "attention", "convert")
FILES = sorted(p.relative_to(kernels_src()).as_posix() for p in kernels_src().glob("*/*.*"))
KERNELS = [name for name in FILES if name.endswith(".hip")]


def text(name):
    return (kernels_src() / name).read_text(encoding="utf-8")


def test_every_folder_has_its_place():
    assert {name.split("/")[0] for name in FILES} == set(ORDER)


@pytest.mark.parametrize("name", FILES)
def test_includes_point_down(name):
    own = ORDER.index(name.split("/")[0])
    includes = re.findall(r'#include\s*[<"]([^>"]+)[>"]', text(name))
    for include in includes:
        assert include in FILES, f"{name} includes {include}, which is not ours"
        assert ORDER.index(include.split("/")[0]) <= own, f"{name} includes {include}"
        assert not include.endswith(".hip"), f"{name} includes a kernel"


@pytest.mark.parametrize("name", [n for n in FILES if not n.startswith("isa/")])
def test_instructions_are_wrapped(name):
    assert not re.search(r"\basm\b|__builtin_amdgcn_", text(name))


@pytest.mark.parametrize("name", FILES)
def test_lines_and_files_are_short(name):
    lines = text(name).splitlines()
    assert len(lines) <= 300
    assert max(map(len, lines)) <= 130
    assert lines[0].startswith("// "), "a file begins with what it is for"


@pytest.mark.parametrize("name", KERNELS)
def test_readme_lists_the_kernel_and_its_macro(name):
    macro = re.search(r"#define (ROCKE_\w+)\(entry\)", text(name))[1]
    assert f"| `{name}` | `{macro}` |" in text("README.md")


def test_readme_names_structures_that_exist():
    for structure, dtype in re.findall(r"`(\w+)`[^|]*\| `([\w./]+)` \|", text("README.md")):
        if dtype.endswith(".h"):
            assert f"struct {structure}" in text(dtype)
    for module, name in re.findall(
        r"`(gpu/launch|kernels/rows)\.py` `([A-Z_]+)`", text("README.md")
    ):
        assert hasattr({"gpu/launch": launch, "kernels/rows": rows}[module], name)


OF_ONE_KERNEL = {
    "flash_forward.hip": set(),
    "flash_forward_streaming.hip": {"raised_priority"},
    "flash_forward_wide.hip": {"raised_priority"},
}
"""Constants that a kernel has not, since the spec refuses what they stand for."""


@pytest.mark.parametrize("name", OF_ONE_KERNEL)
def test_no_constant_is_without_use(name):
    everything = "".join(text(n) for n in FILES if not n.endswith(".hip"))
    everything += text(f"attention/{name}")
    for field in KernelVariant.__dataclass_fields__.keys() - OF_ONE_KERNEL[name]:
        assert re.search(rf"(V|Variant)::{field}\b", everything), field

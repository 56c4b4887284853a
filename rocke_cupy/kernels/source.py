"""The HIP sources: where they lie, and the one self-contained text that hipRTC gets."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

_INCLUDE = re.compile(r'\s*#\s*include\s+"([^"]+)"')
_PRAGMA_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")
_SUFFIXES = {".h", ".hip"}


@functools.cache
def kernels_src() -> Path:
    """Return the folder of the HIP sources.

    An installed wheel has it inside the package; in a checkout, and so in an editable install, it
    lies beside the package.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "kernels_src", package.parent / "kernels_src"):
        if any(folder.glob("*/*.hip")):
            return folder
    raise FileNotFoundError(
        f"the HIP sources of rocke_cupy are neither in {package / 'kernels_src'} nor beside it: "
        "the installation is incomplete, install the package again"
    )


@functools.cache
def sources_digest() -> str:
    """Return the SHA-256 of all HIP sources, names included.

    CuPy's disk cache is keyed by the source text. The digest in that text makes it cover the
    tree, whatever a kernel includes.
    """
    digest = hashlib.sha256()
    for path in sorted(p for p in kernels_src().rglob("*") if p.suffix in _SUFFIXES):
        content = path.read_bytes()
        name = path.relative_to(kernels_src()).as_posix()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def translation_unit(
    kernel_file: str, macro: str, entry: str, constants: Mapping[str, int | bool]
) -> str:
    """Return the complete source of one kernel.

    Parameters
    ----------
    kernel_file : str
        Its path below ``kernels_src``, such as ``"attention/flash_forward.hip"``.
    macro : str
        The macro of that file which writes the ``extern "C"`` kernel.
    entry : str
        The kernel's name.
    constants : mapping
        Members of ``struct Variant``, in order.
    """
    lines = [f"// rocke_cupy {entry} sources {sources_digest()}", "struct Variant {"]
    for name, value in constants.items():
        kind = "bool" if isinstance(value, bool) else "int"
        lines.append(f"  static constexpr {kind} {name} = {str(value).lower()};")
    lines.append("};")
    lines += _inlined(kernels_src() / kernel_file, set())
    lines += ['#line 1 "entry"', f"{macro}({entry})", ""]
    return "\n".join(lines)


def inlined_text(file: str) -> str:
    """Return a file below ``kernels_src`` with the text of all that it includes."""
    return "\n".join(_inlined(kernels_src() / file, set()))


def _inlined(path: Path, seen: set[Path]) -> Iterator[str]:
    """Yield the lines of a file with each quoted include replaced by its text, once.

    The compiler's messages then name the file and line of the sources.
    """
    seen.add(path)
    name = "kernels_src/" + path.relative_to(kernels_src()).as_posix()
    yield f'#line 1 "{name}"'
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        include = _INCLUDE.match(line)
        if include:
            header = _find_header(include[1], path, number)
            if header not in seen:
                yield from _inlined(header, seen)
            yield f'#line {number + 1} "{name}"'
        elif _PRAGMA_ONCE.match(line):
            yield ""
        else:
            yield line


def _find_header(name: str, includer: Path, line: int) -> Path:
    for folder in (includer.parent, kernels_src()):
        header = (folder / name).resolve()
        if header.is_file():
            return header
    raise FileNotFoundError(f'{includer}:{line}: #include "{name}" names no file')

"""What the files of the package import, by their text."""

import ast
from pathlib import Path

import rocke_cupy

PACKAGE = Path(rocke_cupy.__file__).parent


def imports_of(path):
    """Yield all that a file imports, by its full name."""
    package = path.relative_to(PACKAGE.parent).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)

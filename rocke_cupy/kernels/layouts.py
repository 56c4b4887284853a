"""What the HIP headers declare and Python needs too: argument structures and constants.

They stand once, in C++ that an editor understands; here the declarations are read. Only what
arguments are made of is known: fields, arrays of them, pointers, and structures in structures.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .source import inlined_text

_COMMENT = re.compile(r"//.*")
_CONSTANTS = re.compile(r"\bconstexpr int ([^;]+);")
_POINTER_TYPE = re.compile(r"\busing (\w+) = [^;]*\*;")
_DECLARATOR = re.compile(r"\s*(\**)\s*(\w+)(?:\[(\w+)\])?\s*")
_TYPES: dict[str, DTypeLike] = {
    "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64,
    "float": np.float32,
}  # fmt: skip
_ADDRESS = np.uint64
_ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.floordiv, ast.LShift: operator.lshift,
}  # fmt: skip


@functools.cache
def structure(file: str, name: str) -> np.dtype:
    """Return a structure as NumPy lays it out in memory, which is how C++ does.

    Parameters
    ----------
    file : str
        Below ``kernels_src``; it or what it includes has the declaration.
    name : str
    """
    body = re.search(rf"\bstruct {name} {{(.*?)\n}};", _text(file), re.DOTALL)
    if body is None:
        raise ValueError(f"{file} declares no struct {name}")
    return np.dtype(list(_fields(file, name, body[1])), align=True)


@functools.cache
def constant(file: str, name: str) -> int:
    """Return the value of a ``constexpr int``, computed from others if it is."""
    declared = ",".join(_CONSTANTS.findall(_text(file))).split(",")
    constants = dict(text.split("=", 1) for text in declared if "=" in text)
    constants = {key.strip(): value for key, value in constants.items()}
    if name not in constants:
        raise ValueError(f"{file} declares no constexpr int {name}")
    return _value(file, ast.parse(constants[name].strip(), mode="eval").body)


def _value(file: str, expression: ast.expr) -> int:
    if isinstance(expression, ast.Constant) and isinstance(expression.value, int):
        return expression.value
    if isinstance(expression, ast.Name):
        return constant(file, expression.id)
    if isinstance(expression, ast.BinOp) and type(expression.op) in _ARITHMETIC:
        sides = _value(file, expression.left), _value(file, expression.right)
        return int(_ARITHMETIC[type(expression.op)](*sides))
    raise ValueError(f"{file}: {ast.unparse(expression)} is not made of whole numbers")


def _fields(file: str, structure_name: str, body: str) -> Iterator[tuple[Any, ...]]:
    for declaration in filter(None, map(str.strip, body.split(";"))):
        kind, _, names = declaration.removeprefix("const ").replace("*", " *").partition(" ")
        for text in names.split(","):
            found = _DECLARATOR.fullmatch(text)
            if found is None:
                raise ValueError(f"{file}: struct {structure_name} has {declaration!r}")
            pointer, name, length = found.groups()
            type_of = _ADDRESS if pointer else _type(file, kind)
            yield (name, type_of, _count(file, length)) if length else (name, type_of)


def _type(file: str, name: str) -> DTypeLike:
    if name in _TYPES:
        return _TYPES[name]
    if name in _POINTER_TYPE.findall(_text(file)):
        return _ADDRESS
    return structure(file, name)


def _count(file: str, length: str) -> int:
    return int(length) if length.isdigit() else constant(file, length)


@functools.cache
def _text(file: str) -> str:
    return _COMMENT.sub("", inlined_text(file))

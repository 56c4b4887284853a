"""LLVM's text of an instruction, cut into its words."""

from __future__ import annotations

CACHE_POLICY = frozenset({"sc0", "sc1", "nt", "glc", "slc", "dlc"})
"""Modifiers of memory instructions that say how caches are used."""

_SUFFIXES = ("_e32", "_e64_dpp", "_e64", "_sdwa", "_dpp")


def split(text: str) -> tuple[str, list[str], list[str]]:
    """Cut a line into mnemonic, operands and modifiers."""
    mnemonic, _, rest = text.partition(" ")
    operands, modifiers = [], []
    for number, part in enumerate(_split_outside(rest, ",")):
        words = _split_outside(part, " ")
        if number == 0 and words and _is_modifier(words[0]):
            modifiers += words
            continue
        operands += words[:1]
        modifiers += words[1:]
    return mnemonic, operands, modifiers


def _is_modifier(word: str) -> bool:
    return ":" in word.partition("[")[0] or word in CACHE_POLICY


def _split_outside(text: str, separator: str) -> list[str]:
    """Split at a separator that is not inside brackets."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character in "[(") - (character in "])")
        if character == separator and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    parts.append(current.strip())
    return [part for part in parts if part]


def without_suffix(mnemonic: str) -> str:
    """Return a mnemonic without its encoding suffix, if it has one."""
    for suffix in _SUFFIXES:
        if mnemonic.endswith(suffix):
            return mnemonic.removesuffix(suffix)
    return mnemonic


def named(modifier: str) -> tuple[str, str]:
    """Cut a modifier into its name and its value."""
    name, _, value = modifier.partition(":")
    return name, value


def bits(text: str) -> list[int]:
    """Return the bits of a modifier's value, such as ``[0,1]``."""
    return [int(bit) for bit in text.strip("[]").split(",")]

"""Which tokens of a sequence each rank holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from ..rules.numbers import check_choice, shown, whole_number

ORDERS = ("contiguous", "zigzag")


def shares(seqlen: int, size: int, order: str = "contiguous") -> list[list[slice]]:
    """Cut a sequence into equal shares, one for each rank.

    Parameters
    ----------
    seqlen : int
        Tokens of the whole sequence. Where they cannot be shared evenly, the first ranks have one
        more.
    size : int
        Number of ranks.
    order : {"contiguous", "zigzag"}
        As for `ring_attention`.

    Returns
    -------
    list of list of slice
        For each rank its pieces of the sequence, in the order in which its share has them.

    Raises
    ------
    ValueError, TypeError
        The sentence names the argument, its value and the rule.

    Examples
    --------
    >>> from rocke_cupy.distributed import shares
    >>> shares(8, 2)
    [[slice(0, 4, None)], [slice(4, 8, None)]]
    >>> shares(8, 2, "zigzag")
    [[slice(0, 2, None), slice(6, 8, None)], [slice(2, 4, None), slice(4, 6, None)]]
    """
    check_choice("order", order, ORDERS)
    seqlen = _at_least(0, "seqlen", seqlen)
    size = _at_least(1, "size", size)
    even, rest = divmod(seqlen, size)
    return pieces([even + (rank < rest) for rank in range(size)], order)


def _at_least(least: int, name: str, given: int) -> int:
    message = f"{name}={shown(given)} must be a whole number, {least} or more"
    number = whole_number(given, message)
    if number < least:
        raise ValueError(message)
    return number


def pieces(lengths: Sequence[int], order: str) -> list[list[slice]]:
    """Return where the tokens of each rank lie in the sequence, from the lengths of the shares.

    In zigzag order a rank has a piece of the first half of the sequence and the one opposite in the
    second: what it lacks of a causal triangle in the one, it has more in the other.
    """
    if order == "contiguous":
        return [[piece] for piece in _in_a_row(lengths)]
    first = [-(-length // 2) for length in lengths]
    second = [length // 2 for length in reversed(lengths)]
    in_order = _in_a_row(first + second)
    ranks = len(lengths)
    return [[in_order[rank], in_order[2 * ranks - 1 - rank]] for rank in range(ranks)]


def _in_a_row(lengths: Sequence[int]) -> list[slice]:
    ends = list(accumulate(lengths))
    return [slice(end - length, end) for end, length in zip(ends, lengths, strict=True)]

"""What the contract promises and no kernel does yet. The list shrinks; nothing else refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ._checks import Problem
from .spec import MAX_HEAD_SIZE


class Gap(NamedTuple):
    """A kind of call that is refused for now."""

    applies: Callable[[Problem, Mapping[str, str]], bool]
    sentence: Callable[[Problem, Mapping[str, str]], str]


GAPS = (
    Gap(
        lambda problem, packing: problem.head_dim > MAX_HEAD_SIZE,
        lambda problem, packing: (
            f"q.shape has head dim {problem.head_dim}: the kernels take up to {MAX_HEAD_SIZE}"
        ),
    ),
    Gap(
        lambda problem, packing: bool(packing),
        lambda problem, packing: "; ".join(
            f"{name} must be copied to another layout first, {reason}: there is no kernel for "
            "that copy yet"
            for name, reason in packing.items()
        ),
    ),
)


def check_covered(problem: Problem, packing: Mapping[str, str]) -> None:
    """Raise NotImplementedError, naming the argument, for what no kernel does yet.

    Parameters
    ----------
    problem : Problem
    packing : mapping
        The arrays that the kernel cannot take as they are, with the reason.
    """
    for gap in GAPS:
        if gap.applies(problem, packing):
            raise NotImplementedError(gap.sentence(problem, packing))

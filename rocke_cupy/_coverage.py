"""What the contract promises and no kernel does yet. The list shrinks; nothing else refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ._checks import Problem
from .spec import MAX_HEAD_SIZE


class Gap(NamedTuple):
    """A kind of call that is refused for now."""

    applies: Callable[[Problem], bool]
    sentence: Callable[[Problem], str]


GAPS = (
    Gap(
        lambda problem: problem.head_dim > MAX_HEAD_SIZE,
        lambda problem: (
            f"q.shape has head dim {problem.head_dim}: the kernels take up to {MAX_HEAD_SIZE}"
        ),
    ),
)


def check_covered(problem: Problem) -> None:
    """Raise NotImplementedError, naming the argument, for what no kernel does yet."""
    for gap in GAPS:
        if gap.applies(problem):
            raise NotImplementedError(gap.sentence(problem))

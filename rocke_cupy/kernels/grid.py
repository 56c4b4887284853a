"""The grid of a launch, within what the hardware takes."""

from __future__ import annotations

from ..arch import MAX_GRID_X, MAX_GRID_YZ

_MAX_WORK = 2**31
"""Work items are counted in 32 bits."""


def fold_grid(x: int, y: int, z: int) -> tuple[int, int, int]:
    """Return three axes with the product of the given ones, each within the hardware's limit.

    The kernels count workgroups along the axes as one number, so only the product matters.
    """
    total = x * y * z
    if total >= _MAX_WORK:
        raise ValueError(
            f"the problem has {total:,} blocks of work, the kernels count up to {_MAX_WORK - 1:,}: "
            "split the batch"
        )
    if x <= MAX_GRID_X and max(y, z) <= MAX_GRID_YZ:
        return x, y, z
    if total <= MAX_GRID_X:
        return total, 1, 1
    for outer in range(-(-total // MAX_GRID_X), MAX_GRID_YZ + 1):
        if total % outer == 0:
            return total // outer, outer, 1
    raise ValueError(
        f"the problem has {total:,} blocks of work, which no grid of up to {MAX_GRID_X:,} x "
        f"{MAX_GRID_YZ:,} workgroups makes exactly: split the batch"
    )

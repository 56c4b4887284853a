"""The arguments that a launch adds behind those of the source: the ABI's hidden ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any


def hidden_arguments(
    kernarg: bytearray, kernel: Any, grid: Sequence[int], block: Sequence[int], shared_mem: int
) -> None:
    """Write the hidden arguments of a launch into its argument block.

    Those that are not listed here (buffers for printf, host calls, device heap ...) stay zero.

    Parameters
    ----------
    kernarg : bytearray
        The argument block, changed in place.
    kernel : object
        Metadata of the kernel: its `args` with `offset`, `size` and `value_kind`.
    grid, block : sequence of int
        Workgroups, and threads of a workgroup, in x, y and z.
    shared_mem : int
        Dynamic LDS bytes.
    """
    dimensions = 3 if grid[2] * block[2] > 1 else 2 if grid[1] * block[1] > 1 else 1
    values = {"hidden_grid_dims": dimensions, "hidden_dynamic_lds_size": shared_mem}
    for axis, count, size in zip("xyz", grid, block, strict=True):
        values[f"hidden_block_count_{axis}"] = count
        values[f"hidden_group_size_{axis}"] = size
        values[f"hidden_remainder_{axis}"] = 0  # HIP launches whole workgroups only
    for argument in kernel.args:
        if argument.value_kind in values:
            code = {2: "<H", 4: "<I", 8: "<Q"}[argument.size]
            struct.pack_into(code, kernarg, argument.offset, values[argument.value_kind])

"""The grid of a launch: within the limits of the hardware, with the same product."""

import pytest

from rocke_cupy.kernels import grid


@pytest.mark.parametrize(
    ("axes", "folded"),
    [
        ((3, 4, 5), (3, 4, 5)),
        ((1, 1, 65_535), (1, 1, 65_535)),
        ((1, 1, 65_536), (65_536, 1, 1)),
        ((2, 65_536, 3), (2 * 65_536 * 3, 1, 1)),
        ((8_388_607, 1, 1), (8_388_607, 1, 1)),
        ((8_388_608, 1, 1), (4_194_304, 2, 1)),
    ],
)
def test_grids_keep_the_product_within_the_limits(axes, folded):
    assert grid.fold_grid(*axes) == folded

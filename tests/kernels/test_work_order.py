"""Work orders: every item once, whatever the counts; the right neighbours on one die."""

import itertools

import numpy as np
import pytest
from helpers.work_items import decode

from rocke_cupy.spec import WORK_ORDERS

XCDS = 8


@pytest.mark.parametrize("order", WORK_ORDERS)
def test_every_item_once(order):
    counts = [(1, 1, 1, 1, 1), (3, 6, 3, 5, 1), (7, 4, 2, 1, 3), (2, 5, 1, 3, 2), (4, 8, 8, 2, 1)]
    for blocks, heads, group, batch, splits in counts:
        items = decode(order, blocks, heads, group, batch, splits)
        every = itertools.product(range(blocks), range(heads), range(batch), range(splits))
        assert sorted(map(tuple, items.tolist())) == sorted(every)


def test_a_kv_head_stays_on_one_die():
    blocks, heads, group, batch = 6, 16, 4, 4
    items = decode("xcd", blocks, heads, group, batch)
    for die in range(XCDS):
        mine = items[die::XCDS]
        kv_heads = {(b, h // group) for _, h, b, _ in mine.tolist()}
        assert len(kv_heads) == heads // group * batch // XCDS


def test_long_blocks_of_a_causal_head_start_first():
    blocks = 6
    for causal in (True, False):
        items = decode("xcd", blocks, 8, 1, 1, causal=causal)
        first_die = items[::XCDS][:, 0]
        assert first_die[0] == (blocks - 1 if causal else 0)
        assert (np.diff(first_die) == (-1 if causal else 1)).all()


def test_kv_head_major_pairs_low_and_high_blocks():
    items = decode("hkv_major", 5, 2, 1, 1)
    assert items[:5, 0].tolist() == [0, 1, 4, 3, 2]


def test_interleave_turns_every_other_plane():
    items = decode("interleave", 4, 2, 1, 1)
    assert items[items[:, 1] == 0][:, 0].tolist() == [0, 1, 2, 3]
    assert items[items[:, 1] == 1][:, 0].tolist() == [3, 2, 1, 0]

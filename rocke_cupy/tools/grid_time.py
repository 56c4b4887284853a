"""Modelled time of a whole call: which block of rows runs where, and when it ends.

A block's cost is interpolated from a few that the timing model replayed; the compute units then
take the workgroups in their order. What the caches make of an order is not modelled.
"""

from __future__ import annotations

import functools
import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..arch import LDS_BYTES
from ..dense import attention_dense_grid
from ..emulator.timing import constants
from ..rules.masks import UNLIMITED
from ..spec import TILE, AttentionDenseSpec
from .block import kernel_of, run_block


class WorkItems(NamedTuple):
    """Pieces of work in the order of their numbers, as ``parts/work_order.h`` decodes them."""

    query_block: np.ndarray
    head: np.ndarray
    batch: np.ndarray
    split: np.ndarray


def work_items(spec: AttentionDenseSpec) -> WorkItems:
    """Return what the items of a spec's problem are, by their numbers."""
    blocks = spec.num_query_blocks
    heads = spec.num_kv_heads if spec.pack_gqa else spec.num_query_heads
    group = 1 if spec.pack_gqa else spec.num_queries_per_kv
    number = np.arange(spec.num_work_items)
    order = spec.resolved_work_order
    causal = spec.masks.right < UNLIMITED
    if order == "xcd":
        rest, split = _split_off(_contiguous_on_xcds(number), spec.num_splits)
        rest, in_group = _split_off(rest, group)
        rest, block = _split_off(rest, blocks)
        batch, kv_head = _split_off(rest, heads // group)
        block = blocks - 1 - block if causal else block
        return WorkItems(block, kv_head * group + in_group, batch, split)
    if order == "grid":
        rest, block = _split_off(number, blocks)
        rest, head = _split_off(rest, heads)
        split, batch = _split_off(rest, spec.batch)
        return WorkItems(block, head, batch, split)
    rest, batch = _split_off(number, spec.batch)
    if order == "hkv_major":
        rest, in_group = _split_off(rest, group)
        rest, block = _split_off(rest, blocks)
        split, kv_head = _split_off(rest, heads // group)
        half = blocks // 2
        folded = np.where(block < half, block, blocks - 1 + half - block)
        return WorkItems(folded, kv_head * group + in_group, batch, split)
    rest, head = _split_off(rest, heads)
    split, block = _split_off(rest, blocks)
    if order == "interleave" and causal:
        block = np.where(head % 2 == 1, blocks - 1 - block, block)
    return WorkItems(block, head, batch, split)


def visible_keys(spec: AttentionDenseSpec, token: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last key that each query token sees; none if last < first."""
    masks = spec.masks
    at = token + (0 if masks.top_left else spec.seqlen_kv - spec.seqlen_q)
    return np.maximum(0, at - masks.left), np.minimum(spec.seqlen_kv - 1, at + masks.right)


def visited_tiles(spec: AttentionDenseSpec, items: WorkItems) -> np.ndarray:
    """Return how many tiles of 64 keys each item visits, as ``parts/key_range.h`` has it.

    Packed sequences count as if all had the longest length.
    """
    group = spec.num_queries_per_kv if spec.pack_gqa else 1
    rows = spec.seqlen_q * group
    first_row = items.query_block * spec.block_m
    last_row = np.minimum(first_row + spec.block_m, rows) - 1
    first_key, _ = visible_keys(spec, first_row // group)
    _, last_key = visible_keys(spec, last_row // group)
    first_tile = first_key // TILE
    end_tile = np.where(last_key < first_key, first_tile, last_key // TILE + 1)
    if spec.num_splits == 1:
        return end_tile - first_tile
    turn = 2 * spec.block_n // TILE
    turns = _ceil_div(end_tile - first_tile, turn)
    share = _ceil_div(turns, spec.num_splits) * turn
    start = first_tile + items.split * share
    return np.maximum(np.minimum(end_tile, start + share) - start, 0)


def _ceil_div(number: np.ndarray, size: int) -> np.ndarray:
    return -(-number // size)


def _split_off(number: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    return number // size, number % size


def _contiguous_on_xcds(number: np.ndarray) -> np.ndarray:
    xcds, items = constants()["xcds"], len(number)
    xcd, share, remainder = number % xcds, items // xcds, items % xcds
    return xcd * share + np.minimum(xcd, remainder) + number // xcds


@dataclass(frozen=True)
class BlockCost:
    """Modelled cycles of a block of rows by the tiles it visits, from a few that were replayed.

    Attributes
    ----------
    tiles, cycles : numpy.ndarray
        The replayed ones.
    matrix_cycles : float
        Of a tile and matrix pipe.
    copies : int
        Workgroups that a compute unit runs side by side, each in `cycles`.
    """

    tiles: np.ndarray
    cycles: np.ndarray
    matrix_cycles: float
    copies: int

    @property
    def tile_cycles(self) -> float:
        """Of one more tile of a long block."""
        return float((self.cycles[-1] - self.cycles[-2]) / (self.tiles[-1] - self.tiles[-2]))

    @property
    def fixed_cycles(self) -> float:
        """What a long block takes on top of its tiles: its start and its end."""
        return float(self.cycles[-1] - self.tile_cycles * self.tiles[-1])

    def __call__(self, tiles: np.ndarray) -> np.ndarray:
        """Return the cycles of blocks, linear between and beyond the replayed ones."""
        beyond = self.cycles[-1] + self.tile_cycles * (tiles - self.tiles[-1])
        within = np.interp(tiles, self.tiles, self.cycles)
        return np.where(tiles > self.tiles[-1], beyond, within)


@functools.cache
def block_cost(spec: AttentionDenseSpec, rocm: str, *, alone: bool = False) -> BlockCost:
    """Replay blocks of a spec's kernel, with its masks, at a few lengths.

    ``alone`` is one workgroup on a compute unit that has room for more.
    """
    # LDS that the kernel does not use leaves none for a second workgroup.
    unused = LDS_BYTES - kernel_of(spec, rocm).lds_size if alone else 0
    turn = 2 * spec.block_n // TILE
    tiles = turn * np.array([1, 2, 4, 8, 16])
    timings = []
    for count in tiles.tolist():
        keys = count * TILE
        left = max(keys - spec.block_m, 1) if spec.sliding_window else UNLIMITED
        right = 0 if spec.masks.right < UNLIMITED else UNLIMITED
        report = run_block(
            spec, keys, rocm=rocm, window=(left, right), races=False, timing=True, shared_mem=unused
        )
        assert report.timing
        timings.append(report.timing)
    cycles = np.array([t.pace.cycles for t in timings])
    pace = timings[-2].between(timings[-1], int(tiles[-1] - tiles[-2]))
    return BlockCost(tiles, cycles, pace.cycles * pace.busy["mfma"], timings[0].copies)


@dataclass(frozen=True)
class GridTime:
    """Modelled time of a launch.

    Attributes
    ----------
    cycles : float
        From the first workgroup's start to the last one's end.
    busy : float
        Share of that time that the compute units have work, on the mean.
    matrix : float
        Share of that time that the matrix pipes are busy, on the mean.
    microseconds : float
        At the clock that a MI355X sustains, launch included.
    tflops : float
        Of ``4 B H Sq Skv D`` operations, of visible pairs of rows and keys only.
    workgroups : int
    """

    cycles: float
    busy: float
    matrix: float
    microseconds: float
    tflops: float
    workgroups: int


def grid_time(spec: AttentionDenseSpec, rocm: str = "7.0") -> GridTime:
    """Return the modelled time of a spec's problem, all compute units and their tail included.

    Parameters
    ----------
    spec : AttentionDenseSpec
        Here its shape matters.
    rocm : {"7.0", "7.14"}
        Generation of hipRTC.
    """
    c = constants()
    workgroups = int(np.prod(attention_dense_grid(spec)))
    cost = block_cost(_without_shape(spec), rocm, alone=workgroups <= c["compute_units"])
    tiles = visited_tiles(spec, work_items(spec))
    item_cycles = cost(tiles)
    if spec.persistent:
        pad = -len(tiles) % workgroups
        of_workgroup = np.pad(item_cycles, (0, pad)).reshape(-1, workgroups).sum(axis=0)
    else:
        of_workgroup = item_cycles
    ends = _run(of_workgroup + c["workgroup_start"], cost.copies)
    span = float(ends.max())
    seconds = span / (c["sustained_gigahertz"] * 1e9) + c["launch_microseconds"] * 1e-6
    return GridTime(
        cycles=span,
        busy=float(of_workgroup.sum() / (span * c["compute_units"] * cost.copies)),
        matrix=float(tiles.sum() * cost.matrix_cycles / (span * c["compute_units"])),
        microseconds=seconds * 1e6,
        tflops=operations(spec) / seconds * 1e-12,
        workgroups=workgroups,
    )


def operations(spec: AttentionDenseSpec) -> float:
    """Return the floating-point operations of a spec's problem by the usual count.

    ``4 B H Sq Skv D``, half of it when causal; with a window, what is visible.
    """
    pairs = float(spec.seqlen_q) * spec.seqlen_kv
    if spec.causal and not spec.sliding_window:
        pairs /= 2
    elif spec.sliding_window or spec.window_right >= 0:
        first, last = visible_keys(spec, np.arange(spec.seqlen_q))
        pairs = float(np.maximum(last - first + 1, 0).sum())
    return 4.0 * spec.batch * spec.num_query_heads * pairs * spec.head_size


def _without_shape(spec: AttentionDenseSpec) -> AttentionDenseSpec:
    """Return a spec that is equal for all shapes of one binary and one kind of mask."""
    group = spec.num_queries_per_kv if spec.pack_gqa else 1
    order = spec.resolved_persist_decode if spec.persistent else "auto"
    return spec.replace(
        batch=1,
        seqlen_q=spec.block_m,
        seqlen_kv=spec.block_m,
        num_query_heads=group,
        num_kv_heads=1,
        ragged=True,
        num_splits=min(spec.num_splits, 2),
        sliding_window=1 if spec.sliding_window else 0,
        persist_decode=order,
    )


def _run(cycles: np.ndarray, copies: int) -> np.ndarray:
    """Return when each workgroup ends: XCDs take turns, and in each the first free unit is next."""
    c = constants()
    xcds = c["xcds"]
    free = [[0.0] * (c["compute_units"] // xcds * copies) for _ in range(xcds)]
    ends = np.empty(len(cycles))
    for number, duration in enumerate(cycles.tolist()):
        units = free[number % xcds]
        ends[number] = end = units[0] + duration
        heapq.heapreplace(units, end)
    return ends

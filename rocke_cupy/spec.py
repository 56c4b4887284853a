"""What a dense attention kernel is specialised for, and what it cannot be.

A spec is complete: everything that changes the generated code is a field of it. Every limit of
the hardware or of the kernel is stated here, once.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from .arch import LDS_BYTES, VGPRS_PER_SIMD_LANE
from .rules.dtypes import BY_SHORT_NAME
from .rules.masks import UNLIMITED, Masks
from .rules.parts import MAX_PARTS
from .rules.shapes import MAX_HEAD_DIM

BLOCK_M = 256
"""Query rows of a workgroup: eight waves of 32 rows, the width of the matrix instruction."""

SMALL_BLOCK_M = 128
"""The same of a workgroup of four waves."""

ROWS_OF_WAVE = 32

WAVE = 64

TILE = 64
"""Keys of a tile, the unit in which the kernels visit them."""

LINE_BYTES = 1024
K_LINE_PADDING, V_LINE_PADDING = 16, 64
"""LDS holds keys and values in lines, what one LDS DMA of a wave brings. The padding after a line
keeps both ways of reading free of bank conflicts.
"""

ROW_LINES = 8
"""Lines that a wave's 32 rows of Q, and later of the output, take on their way through LDS."""

MAX_PIPELINED_HEAD_SIZE = 128
"""Up to here a wave's registers hold two tiles of scores and one of keys."""

MAX_HELD_HEAD_SIZE, PARKED_QUERY_BYTES = 224, 3 * 1024 * (BLOCK_M // 32)
"""Up to here they hold all of Q. Above, three of its fragments a wave lie in LDS, but for the
streaming kernel.
"""

PERSIST_DECODES = ("qb_major", "hkv_major", "auto")

WORK_ORDERS = {"xcd": 0, "qb_major": 1, "hkv_major": 2, "interleave": 3, "grid": 4}
"""How a workgroup's number becomes (query block, head, batch entry), as the kernel counts them."""


@dataclass(frozen=True)
class AttentionDenseSpec:
    """A dense attention forward pass: the shape it is for, and the kernel's choices.

    The fields up to ``lazy_rescale`` are those of the gfx950 ``attention_dense`` kernel that this
    package re-creates, with its order, defaults and meaning. Those after it are new; their
    defaults keep that meaning.

    Parameters
    ----------
    batch, seqlen_q, seqlen_kv, num_query_heads, num_kv_heads, head_size : int
        The shape. Lengths are multiples of 256 and of `block_n` unless `ragged`; with `varlen`
        they are the longest ones. The number of query heads is a multiple of that of kv heads.
        `head_size` is a multiple of 8 up to 256.
    causal : bool
        Query i sees keys up to i, or up to the diagonal that `causal_alignment` names.
    dtype : {"bf16", "fp16"}
    sliding_window : int
        Query i sees the `sliding_window` last keys up to the diagonal, itself included; 0 is no
        limit.
    ragged : bool
        The lengths need not be multiples of the tile.
    varlen : bool
        Sequences are packed in arrays (tokens, heads, head_size), bounded by ``cu_seqlens``.
    block_n : {64, 128}
        Keys of a tile.
    waves_per_eu : int
        Waves a SIMD shall hold, which divides its registers.
    persistent : bool
        `num_persistent` workgroups share the work, in the order of `persist_decode`.
    num_persistent : int
        Workgroups of a `persistent` launch.
    interleave : bool
        With `persistent`, every other row of work goes through the query blocks backwards.
    persist_decode : {"auto", "qb_major", "hkv_major"}
    lazy_rescale : bool
        The accumulator is rescaled only when weights have grown by about 2**8, and not whenever
        there is a larger score; docs/numerics.md has the exact rule.
    causal_alignment : {"top_left", "bottom_right"}
        Where the diagonal of `causal` and of the windows lies when the lengths differ:
        query i is at key i, or at key i + seqlen_kv - seqlen_q.
    window_right : int
        Keys past the diagonal that a query sees; -1 is no limit. `causal` means 0.
    key_lengths : bool
        Each batch entry has its own number of keys, given at run time.
    float32_out : bool
        The output is float32, not rounded to `dtype`.
    num_splits : int
        Parts that the keys are cut into; their results are merged afterwards.
    pack_gqa : bool
        The query heads of one kv head share the rows of a tile.
    work_order : {"grid", "xcd"}
        Without `persistent`: "grid" counts query blocks first, then heads, then batch entries;
        "xcd" keeps a kv head on one of the eight dies and starts with the longest rows.
    wide_kv : bool
        The keys of one head span 2 GiB or more.
    streaming : bool
        The kernel that takes a tile in two halves, one after the other. It is slower and leaves
        registers for more.
    block_m : {256, 128}
        Query rows of a workgroup. 128 are four waves: more workgroups, for problems that leave
        compute units idle.
    scaled_query : bool
        The queries hold ``softmax_scale * log2(e)`` already, so that the kernel multiplies no
        score; its argument ``scale`` is then ln(2).
    packed_softmax : bool
        Products and sums of the softmax are packed instructions, two results each, which run
        beside no matrix instruction; else as many are single ones as the timing model likes.
    raised_priority : bool
        Waves raise their priority while they multiply P and V.

    Raises
    ------
    ValueError
        The sentence names the field, its value and the rule.

    Examples
    --------
    >>> from rocke_cupy import AttentionDenseSpec
    >>> spec = AttentionDenseSpec(2, 1024, 1024, 8, 2, 128)
    >>> spec.kernel_name()
    'rocke_attention_dense_d128_hq8_kv2_bn64_bf16_sq1024_sk1024_causal_lazyrs'
    >>> spec.replace(dtype="fp8")
    Traceback (most recent call last):
        ...
    ValueError: dtype='fp8' must be one of 'bf16', 'fp16'
    """

    batch: int
    seqlen_q: int
    seqlen_kv: int
    num_query_heads: int
    num_kv_heads: int
    head_size: int
    causal: bool = True
    dtype: str = "bf16"
    sliding_window: int = 0
    ragged: bool = False
    varlen: bool = False
    block_n: int = 64
    waves_per_eu: int = 2
    persistent: bool = False
    num_persistent: int = 256
    interleave: bool = False
    persist_decode: str = "auto"
    lazy_rescale: bool = True

    causal_alignment: str = "top_left"
    window_right: int = -1
    key_lengths: bool = False
    float32_out: bool = False
    num_splits: int = 1
    pack_gqa: bool = False
    work_order: str = "grid"
    wide_kv: bool = False
    streaming: bool = False
    block_m: int = BLOCK_M
    scaled_query: bool = False
    packed_softmax: bool = False
    raised_priority: bool = False

    def __post_init__(self) -> None:
        self._check_choices()
        self._check_shape()
        self._check_masks()
        self._check_resources()

    def _check_choices(self) -> None:
        _require_in("dtype", self.dtype, tuple(sorted(BY_SHORT_NAME)))
        _require_in("persist_decode", self.persist_decode, PERSIST_DECODES)
        _require_in("causal_alignment", self.causal_alignment, ("top_left", "bottom_right"))
        _require_in("work_order", self.work_order, ("grid", "xcd"))
        if self.persistent and self.num_persistent <= 0:
            raise ValueError(f"num_persistent={self.num_persistent} must be positive")
        if self.persistent and self.work_order != "grid":
            raise ValueError(
                f"work_order={self.work_order!r} must be 'grid' when persistent: persist_decode "
                "says the order then"
            )
        if not 1 <= self.num_splits <= MAX_PARTS:
            raise ValueError(
                f"num_splits={self.num_splits} must be from 1 to {MAX_PARTS}, the partial results "
                "that one launch merges"
            )
        if self.waves_per_eu < 1:
            raise ValueError(f"waves_per_eu={self.waves_per_eu} must be at least 1")

    def _check_shape(self) -> None:
        if self.batch < 0:
            raise ValueError(f"batch={self.batch} must not be negative")
        if not 0 < self.head_size <= MAX_HEAD_DIM or self.head_size % 8:
            raise ValueError(
                f"head_size={self.head_size} must be a multiple of 8 from 8 to {MAX_HEAD_DIM}: "
                "a lane moves 16 bytes, and the output of 32 rows must fit a wave's registers"
            )
        if self.num_kv_heads <= 0 or self.num_query_heads <= 0:
            raise ValueError(
                f"num_query_heads={self.num_query_heads} and num_kv_heads={self.num_kv_heads} "
                "must be positive"
            )
        if self.num_query_heads % self.num_kv_heads:
            raise ValueError(
                f"num_query_heads={self.num_query_heads} must be a multiple of "
                f"num_kv_heads={self.num_kv_heads}"
            )
        if self.block_n <= 0 or self.block_n % 32:
            raise ValueError(f"block_n={self.block_n} must be a positive multiple of 32")
        if self.block_m not in (SMALL_BLOCK_M, BLOCK_M):
            raise ValueError(f"block_m={self.block_m} must be {SMALL_BLOCK_M} or {BLOCK_M}")
        if self.block_m % self.block_n:
            raise ValueError(
                f"block_n={self.block_n} must divide the {self.block_m} query rows of a block: the "
                "masked tiles are counted in whole tiles from the diagonal"
            )
        self._check_lengths()

    def _check_lengths(self) -> None:
        if self.ragged and (self.seqlen_q <= 0 or self.seqlen_kv <= 0):
            raise ValueError(
                f"seqlen_q={self.seqlen_q} and seqlen_kv={self.seqlen_kv} must be positive when "
                "ragged"
            )
        for name, length, tile in (
            ("seqlen_q", self.seqlen_q, self.block_m),
            ("seqlen_kv", self.seqlen_kv, self.block_n),
        ):
            if length < 0 or (not self.ragged and length % tile):
                raise ValueError(
                    f"{name}={length} must be a multiple of {tile} and not negative; ragged=True "
                    "takes any length"
                )

    def _check_masks(self) -> None:
        if self.sliding_window < 0:
            raise ValueError(f"sliding_window={self.sliding_window} must be >= 0")
        if self.window_right < -1:
            raise ValueError(f"window_right={self.window_right} must be >= -1; -1 is no limit")
        if self.causal and self.window_right > 0:
            raise ValueError(
                f"window_right={self.window_right} must be -1 or 0 when causal: no query sees a "
                "key past the diagonal"
            )

    def _check_resources(self) -> None:
        if self.lds_bytes > LDS_BYTES:
            raise ValueError(
                f"block_n={self.block_n} with head_size={self.head_size} needs {self.lds_bytes:,} "
                f"bytes of LDS, a compute unit has {LDS_BYTES:,}"
            )
        if self.min_vgprs > self.max_vgprs:
            raise ValueError(
                f"block_n={self.block_n} with head_size={self.head_size} keeps at least "
                f"{self.min_vgprs} vector registers alive, waves_per_eu={self.waves_per_eu} "
                f"leaves {self.max_vgprs}"
            )
        if self.streaming and self.block_n != 64:
            raise ValueError(f"block_n={self.block_n} must be 64 when streaming")
        if not self.pipelined and self.block_m != BLOCK_M:
            raise ValueError(
                f"block_m={self.block_m} must be {BLOCK_M} when streaming and for "
                f"head_size={self.head_size} past {MAX_PIPELINED_HEAD_SIZE}"
            )
        if self.lds_bytes > self._lds_room:
            raise ValueError(
                f"block_m={self.block_m} must be {BLOCK_M} with block_n={self.block_n} and "
                f"head_size={self.head_size}: two workgroups of four waves have {LDS_BYTES:,} "
                f"bytes of LDS together, one needs {self.lds_bytes:,}"
            )
        for name in ("scaled_query", "packed_softmax", "raised_priority"):
            if not self.pipelined and getattr(self, name):
                raise ValueError(
                    f"{name}=True must be False when streaming and for head_size past "
                    f"{MAX_PIPELINED_HEAD_SIZE}: those kernels have no other loop"
                )
        if self.block_n not in (64, 128):
            raise ValueError(f"block_n={self.block_n} must be 64 or 128: no other kernel is built")

    @property
    def masks(self) -> Masks:
        """Which keys a query sees, as widths around its diagonal."""
        right = UNLIMITED if self.window_right < 0 else self.window_right
        return Masks(
            left=self.sliding_window - 1 if self.sliding_window else UNLIMITED,
            right=0 if self.causal else right,
            top_left=self.causal_alignment == "top_left",
        )

    @property
    def num_waves(self) -> int:
        """Waves of a workgroup."""
        return self.block_m // ROWS_OF_WAVE

    @property
    def dtype_ir(self) -> np.dtype:
        """The NumPy dtype of the inputs."""
        return BY_SHORT_NAME[self.dtype]

    @property
    def num_queries_per_kv(self) -> int:
        """Query heads that share a kv head."""
        return self.num_query_heads // self.num_kv_heads

    @property
    def num_query_blocks(self) -> int:
        """Blocks of `block_m` rows that the queries of one head (of one group, packed) take."""
        rows = self.seqlen_q * (self.num_queries_per_kv if self.pack_gqa else 1)
        return -(-rows // self.block_m)

    @property
    def num_work_items(self) -> int:
        """Pieces of work: one is a block of query rows against a range of keys."""
        heads = self.num_kv_heads if self.pack_gqa else self.num_query_heads
        return self.num_query_blocks * heads * self.batch * self.num_splits

    @property
    def resolved_persist_decode(self) -> str:
        """`persist_decode` with "auto" decided.

        hkv_major keeps one kv head's keys in the L2 cache, but balances the causal triangle only
        when each workgroup gets both a short and a long half of a kv head's work.
        """
        if self.persist_decode != "auto":
            return self.persist_decode
        group = self.num_queries_per_kv
        blocks = -(-self.seqlen_q // self.block_m)
        balanced = group * blocks * self.batch >= 2 * self.num_persistent
        return "hkv_major" if group > 1 and balanced else "qb_major"

    @property
    def resolved_work_order(self) -> str:
        """The key of `WORK_ORDERS` that the kernel uses."""
        if not self.persistent:
            return self.work_order
        if self.resolved_persist_decode == "hkv_major":
            return "hkv_major"
        return "interleave" if self.interleave else "qb_major"

    @property
    def tile_head_size(self) -> int:
        """Width of the tile, in lines of 64 columns: lanes past `head_size` read zeros."""
        return -(-self.head_size // 64) * 64

    @property
    def lds_bytes(self) -> int:
        """LDS of a workgroup: two buffers of K and V, in padded lines, and its rows or some of Q.

        Rows go through LDS where each is a token of a head and there is room left, for as many
        workgroups as make eight waves.
        """
        lines = self.block_n * self.tile_head_size * 2 // LINE_BYTES
        ring = 2 * lines * ((LINE_BYTES + K_LINE_PADDING) + (LINE_BYTES + V_LINE_PADDING))
        if self.head_size > MAX_HELD_HEAD_SIZE and not self.streaming:
            return ring + PARKED_QUERY_BYTES
        rows = self.num_waves * ROW_LINES * (LINE_BYTES + K_LINE_PADDING)
        fit = self.pipelined and not self.pack_gqa and ring + rows <= self._lds_room
        return ring + rows if fit else ring

    @property
    def pipelined(self) -> bool:
        """Whether the kernel runs whose waves work in two groups, one phase apart."""
        return not self.streaming and self.head_size <= MAX_PIPELINED_HEAD_SIZE

    @property
    def _lds_room(self) -> int:
        """LDS of a workgroup, so that the eight waves that registers are for find room."""
        return LDS_BYTES * self.num_waves // 8

    @property
    def max_vgprs(self) -> int:
        """Vector registers a lane may use, in the hardware's steps of 8.

        A workgroup's eight waves on four SIMDs are two a SIMD, so fewer than two gains nothing.
        """
        return VGPRS_PER_SIMD_LANE // max(self.waves_per_eu, 2) // 8 * 8

    @property
    def min_vgprs(self) -> int:
        """Vector registers that no schedule can do without.

        They hold Q, the output's accumulator, the scores of one tile (of 32 keys but in the
        pipelined kernel) and their packed probabilities. A wave has 32 rows, so 32 x n values of
        32 bits are n / 2 registers.
        """
        q, accumulator = self.tile_head_size // 4, self.tile_head_size // 2
        pipelined = not self.streaming and self.head_size <= MAX_PIPELINED_HEAD_SIZE
        keys = self.block_n if pipelined else 32
        scores, probabilities = keys // 2, keys // 4
        return q + accumulator + scores + probabilities

    def kernel_name(self) -> str:
        """Return the readable name of the spec, shape included."""
        tokens = [
            "rocke_attention_dense",
            f"d{self.head_size}",
            f"hq{self.num_query_heads}",
            f"kv{self.num_kv_heads}",
            f"bn{self.block_n}",
            self.dtype,
            f"sq{self.seqlen_q}",
            f"sk{self.seqlen_kv}",
            "causal" if self.causal else "full",
            "ragged" if self.ragged else "",
            f"swa{self.sliding_window}" if self.sliding_window else "",
            "varlen" if self.varlen else "",
            "lazyrs" if self.lazy_rescale else "",
        ]
        if self.persistent:
            hkv_major = self.resolved_persist_decode == "hkv_major"
            tokens += [
                f"persist{self.num_persistent}",
                "hkvmaj" if hkv_major else "",
                "intl" if self.interleave else "",
            ]
        return "_".join(filter(None, tokens + self._new_tokens()))

    def _new_tokens(self) -> list[str]:
        """Tokens for what differs from the defaults of the fields that the seed did not name."""
        return [
            f"wpe{self.waves_per_eu}" if self.waves_per_eu != 2 else "",
            "br" if self.causal_alignment == "bottom_right" else "",
            f"right{self.window_right}" if self.window_right >= 0 else "",
            "klens" if self.key_lengths else "",
            "f32out" if self.float32_out else "",
            f"split{self.num_splits}" if self.num_splits > 1 else "",
            "packgqa" if self.pack_gqa else "",
            self.work_order if self.work_order != "grid" else "",
            "wide" if self.wide_kv else "",
            "stream" if self.streaming else "",
            f"bm{self.block_m}" if self.block_m != BLOCK_M else "",
            "scaledq" if self.scaled_query else "",
            "packed" if self.packed_softmax else "",
            "prio" if self.raised_priority else "",
        ]

    def replace(self, **changes: object) -> AttentionDenseSpec:
        """Return a copy with some fields changed, checked like a new one."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def _require_in(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} must be one of {', '.join(map(repr, choices))}")

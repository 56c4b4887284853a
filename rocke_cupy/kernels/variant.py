"""The compile-time constants of a kernel: what a spec bakes into the source."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..spec import MAX_PIPELINED_HEAD_SIZE, WORK_ORDERS, AttentionDenseSpec


@dataclass(frozen=True)
class KernelVariant:
    """The constants of ``struct Variant`` in ``kernels_src/attention``, in its order.

    No shape is among them: batch, lengths, head counts and strides are kernel arguments, so all
    specs that agree on these fields share one binary.
    """

    head_dim: int
    block_m: int
    block_n: int
    bfloat16: bool
    float32_out: bool
    right_bound: bool
    left_bound: bool
    varlen: bool
    lazy_rescale: bool
    persistent: bool
    work_order: int
    pack_gqa: bool
    split_kv: bool
    wide_kv: bool
    waves_per_eu: int
    streaming: bool
    scaled_query: bool
    packed_softmax: bool
    raised_priority: bool

    @classmethod
    def of(cls, spec: AttentionDenseSpec) -> KernelVariant:
        """Return what ``spec`` bakes in."""
        return cls(
            head_dim=spec.head_size,
            block_m=spec.block_m,
            block_n=spec.block_n,
            bfloat16=spec.dtype == "bf16",
            float32_out=spec.float32_out,
            right_bound=spec.causal or spec.window_right >= 0,
            left_bound=spec.sliding_window > 0,
            varlen=spec.varlen,
            lazy_rescale=spec.lazy_rescale,
            persistent=spec.persistent,
            work_order=WORK_ORDERS[spec.resolved_work_order],
            pack_gqa=spec.pack_gqa,
            split_kv=spec.num_splits > 1,
            wide_kv=spec.wide_kv,
            waves_per_eu=spec.waves_per_eu,
            streaming=spec.streaming,
            scaled_query=spec.scaled_query,
            packed_softmax=spec.packed_softmax,
            raised_priority=spec.raised_priority,
        )

    @property
    def kernel_file(self) -> str:
        """The kernel that serves it, below ``kernels_src``."""
        if self.streaming:
            return "attention/flash_forward_streaming.hip"
        if self.head_dim > MAX_PIPELINED_HEAD_SIZE:
            return "attention/flash_forward_wide.hip"
        return "attention/flash_forward.hip"

    @property
    def entry(self) -> str:
        """The kernel's name: every constant in words, so that two variants never share one."""
        order = {number: name for name, number in WORK_ORDERS.items()}[self.work_order]
        tokens = [
            "rocke_attention_forward",
            f"d{self.head_dim}",
            f"bm{self.block_m}" if self.block_m != 256 else "",
            f"bn{self.block_n}",
            "bf16" if self.bfloat16 else "fp16",
            "f32out" if self.float32_out else "",
            "right" if self.right_bound else "",
            "left" if self.left_bound else "",
            "varlen" if self.varlen else "",
            "lazyrs" if self.lazy_rescale else "",
            "persist" if self.persistent else "",
            order,
            "packgqa" if self.pack_gqa else "",
            "split" if self.split_kv else "",
            "wide" if self.wide_kv else "",
            f"wpe{self.waves_per_eu}",
            "stream" if self.streaming else "",
            "scaledq" if self.scaled_query else "",
            "packed" if self.packed_softmax else "",
            "prio" if self.raised_priority else "",
        ]
        return "_".join(filter(None, tokens))

    def constants(self) -> dict[str, int | bool]:
        """Return the fields as an ordered mapping."""
        return dataclasses.asdict(self)

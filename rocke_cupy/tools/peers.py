"""Attention of other libraries, for ``python -m rocke_cupy bench``. None of them is needed.

Each adapter says why it cannot run; that sentence is printed in place of its figures. All get the
same numbers, in bfloat16 and in the layout that they take without a copy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Shape:
    """One call: batch entries, heads of queries and of keys, tokens, head dim, causal or full."""

    suite: str
    batch: int
    heads: int
    kv_heads: int
    length: int
    head_dim: int
    causal: bool

    def __str__(self) -> str:
        mask = "causal" if self.causal else "full"
        return f"B{self.batch} {self.heads}/{self.kv_heads} S{self.length} D{self.head_dim} {mask}"

    @property
    def operations(self) -> float:
        """``4 B H S S D``, halved when causal."""
        full = 4.0 * self.batch * self.heads * self.length**2 * self.head_dim
        return full / 2 if self.causal else full

    @property
    def set_bytes(self) -> int:
        """Bytes of q, k, v and the output."""
        tokens = self.batch * self.length * self.head_dim * 2
        return tokens * 2 * (self.heads + self.kv_heads)


class Timed(Protocol):
    """A prepared implementation: `call(n)` uses the n-th set of arrays."""

    def call(self, number: int) -> Any:
        """Start one attention."""

    def elapsed(self, calls: Callable[[], None]) -> float:
        """Return the milliseconds that the device takes for the work that `calls` starts."""

    def result(self) -> np.ndarray:
        """Return the output for the first set as float32, (B, S, H, D)."""


class UnavailableError(RuntimeError):
    """A peer cannot run; the message says why."""


def arrays(shape: Shape, number: int) -> list[np.ndarray]:
    """Return q, k, v of a set, (B, S, H, D): all implementations get these."""
    rng = np.random.default_rng(number)
    q_shape = (shape.batch, shape.length, shape.heads, shape.head_dim)
    k_shape = (shape.batch, shape.length, shape.kv_heads, shape.head_dim)
    return [
        rng.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16)
        for s in (q_shape, k_shape, k_shape)
    ]


class Ours:
    """`rocke_cupy.attention` on CuPy arrays."""

    def __init__(self, shape: Shape, sets: int) -> None:
        import cupy

        from .. import attention

        self._cupy, self._attention, self._causal = cupy, attention, shape.causal
        self._sets = [[cupy.asarray(a) for a in arrays(shape, n)] for n in range(sets)]
        self._outs = [cupy.empty(q.shape, q.dtype) for q, _, _ in self._sets]

    def call(self, number: int) -> Any:
        """Start one attention."""
        n = number % len(self._sets)
        return self._attention(*self._sets[n], causal=self._causal, out=self._outs[n])

    def elapsed(self, calls: Callable[[], None]) -> float:
        """Return the milliseconds between two events around the calls."""
        start, end = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        start.record()
        calls()
        end.record()
        end.synchronize()
        return float(self._cupy.cuda.get_elapsed_time(start, end))

    def result(self) -> np.ndarray:
        """Return the output for the first set."""
        return self._cupy.asnumpy(self.call(0)).astype(np.float32)


class _Torch:
    """Base of the peers that take torch tensors."""

    heads_first = False

    def __init__(self, shape: Shape, sets: int) -> None:
        self._torch = torch = _import("torch", "PyTorch for ROCm")
        if not torch.cuda.is_available() or torch.version.hip is None:
            raise UnavailableError("this PyTorch sees no AMD GPU")
        self._shape = shape
        self._sets = [[self._tensor(a) for a in arrays(shape, n)] for n in range(sets)]

    def _tensor(self, array: np.ndarray) -> Any:
        bits = self._torch.from_numpy(array.view(np.int16)).cuda().view(self._torch.bfloat16)
        return bits.transpose(1, 2).contiguous() if self.heads_first else bits

    def elapsed(self, calls: Callable[[], None]) -> float:
        """Return the milliseconds between two events around the calls."""
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        calls()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    def call(self, number: int) -> Any:
        """Start one attention."""
        raise NotImplementedError

    def result(self) -> np.ndarray:
        """Return the output for the first set."""
        out = self.call(0).float()
        return (out.transpose(1, 2) if self.heads_first else out).cpu().numpy()


class TorchSdpa(_Torch):
    """`torch.nn.functional.scaled_dot_product_attention`, which takes heads before tokens."""

    heads_first = True

    def call(self, number: int) -> Any:
        """Start one attention."""
        q, k, v = self._sets[number % len(self._sets)]
        return self._torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=self._shape.causal, enable_gqa=self._shape.heads != k.shape[1]
        )


class Aiter(_Torch):
    """`aiter.flash_attn_func` of AMD's AI Tensor Engine."""

    def __init__(self, shape: Shape, sets: int) -> None:
        self._function = _import("aiter", "aiter (https://github.com/ROCm/aiter)").flash_attn_func
        super().__init__(shape, sets)

    def call(self, number: int) -> Any:
        """Start one attention."""
        out = self._function(*self._sets[number % len(self._sets)], causal=self._shape.causal)
        return out[0] if isinstance(out, tuple) else out


class FlyDsl(_Torch):
    """The gfx950 kernel of FlyDSL, which is in its repository but not in its wheel."""

    def __init__(self, shape: Shape, sets: int) -> None:
        root = os.environ.get("FLYDSL_ROOT")
        if not root:
            raise UnavailableError(
                "FLYDSL_ROOT is not set to a checkout of https://github.com/ROCm/FlyDSL"
            )
        if root not in sys.path:
            sys.path.append(root)
        _import("flydsl", "flydsl")
        kernels = _import("kernels.attention.flash_attn_gfx950", f"the kernels of {root}")
        super().__init__(shape, sets)
        self._launch = kernels.build_flash_attn_dualwave_swp_module(
            num_heads=shape.heads,
            head_dim=shape.head_dim,
            causal=shape.causal,
            dtype_str="bf16",
            num_kv_heads=shape.kv_heads,
        )
        self._outs = [self._torch.empty_like(q) for q, _, _ in self._sets]

    def call(self, number: int) -> Any:
        """Start one attention."""
        n = number % len(self._sets)
        self._launch(
            *self._sets[n], self._outs[n], self._shape.batch, self._shape.length,
            stream=self._torch.cuda.current_stream(),
        )  # fmt: skip
        return self._outs[n]


def _import(name: str, what: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnavailableError(f"{what} cannot be imported ({error})") from error


PEERS: dict[str, Callable[[Shape, int], Timed]] = {
    "aiter": Aiter,
    "flydsl": FlyDsl,
    "torch": TorchSdpa,
}
"""Other implementations by the name that ``--peers`` takes."""

"""Other forms of the loop, for ``bench --forms``: what only the timing model has decided."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ..rules.call import Problem
from ..rules.dtypes import BY_SHORT_NAME
from ..rules.masks import UNLIMITED, Masks
from ..select import select
from ..spec import AttentionDenseSpec
from .peers import Ours, Shape

FORMS: Mapping[str, Mapping[str, bool]] = {
    "packed": {"packed_softmax": True},
    "priority": {"raised_priority": True},
    "packed+prio": {"packed_softmax": True, "raised_priority": True},
}
"""Fields of a spec that choose another loop; `select` takes none of them."""

_WORTH_IT = 0.99
"""Of the time: differences of less are those between two runs."""


def spec_of(shape: Shape) -> AttentionDenseSpec:
    """Return the spec that `select` takes for a shape, in bfloat16."""
    dtype = BY_SHORT_NAME["bf16"]
    return select(
        Problem(
            batch=shape.batch,
            seqlen_q=shape.length,
            seqlen_kv=shape.length,
            num_query_heads=shape.heads,
            num_kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            out_dtype=dtype,
            compute_dtype=dtype,
            scale=1.0,
            masks=Masks(UNLIMITED, 0 if shape.causal else UNLIMITED, False),
        )
    )


def forms_of(shape: Shape) -> dict[str, AttentionDenseSpec]:
    """Return the spec of each other form of a shape's loop; none where there is one form only."""
    spec = spec_of(shape)
    return {name: spec.replace(**fields) for name, fields in FORMS.items() if spec.pipelined}


class OtherForm(Ours):
    """The kernel of a spec, on the arrays that `Ours` has."""

    def __init__(self, shape: Shape, sets: int, spec: AttentionDenseSpec) -> None:
        super().__init__(shape, sets)
        self._spec, self._scale = spec, shape.head_dim**-0.5

    def call(self, number: int) -> Any:
        """Start one attention."""
        from ..run import run_attention_dense

        n = number % len(self._sets)
        q, k, v = self._sets[n]
        return run_attention_dense(
            spec=self._spec, q=q, k=k, v=v, out=self._outs[n], scale=self._scale
        )


def verdict(times: Iterable[tuple[str, Shape, float]], ours: str) -> list[str]:
    """Return a sentence for each head dim: which form was the fastest, and by how much.

    Parameters
    ----------
    times : iterable of (str, Shape, float)
        Implementation, shape and time.
    ours : str
        The implementation that is what `select` takes.
    """
    by_shape: dict[Shape, dict[str, float]] = {}
    for name, shape, time in times:
        by_shape.setdefault(shape, {})[name] = time
    sentences = []
    for head_dim in sorted({shape.head_dim for shape in by_shape}):
        found = [t for shape, t in by_shape.items() if shape.head_dim == head_dim and ours in t]
        ratios = {
            form: statistics.geometric_mean([t[form] / t[ours] for t in found if form in t])
            for form in FORMS
            if any(form in t for t in found)
        }
        if ratios:
            sentences.append(_sentence(head_dim, ratios, len(found)))
    return sentences


def _sentence(head_dim: int, ratios: Mapping[str, float], shapes: int) -> str:
    best = min(ratios, key=lambda form: ratios[form])
    told = ", ".join(f"{form} {ratio:.3f}" for form, ratio in ratios.items())
    takes = f"`select` should take {best}" if ratios[best] < _WORTH_IT else "`select` is right"
    return f"D {head_dim}: of the time of what `select` takes, {told} ({shapes} shapes): {takes}."

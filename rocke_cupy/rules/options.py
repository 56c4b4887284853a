"""The optional arguments of a call that are no arrays, as one description."""

from __future__ import annotations

from typing import Any, NamedTuple


class Options(NamedTuple):
    """What a caller asks for beside the arrays, unchecked, with the contract's defaults.

    The public functions pass their arguments on as a tuple of these fields, in this order: it is
    what the rules check, and what the GPU keeps a repeated call's plan under. So an argument that
    is a field here can be overlooked by neither.
    """

    softmax_scale: Any = None
    causal: Any = False
    window_size: Any = (-1, -1)
    causal_alignment: Any = "bottom_right"
    compute_dtype: Any = None
    return_lse: Any = False
    check: Any = True
    layout: Any = "bshd"
    """None for packed sequences."""
    max_seqlen_q: Any = None
    """Of packed sequences only, as `max_seqlen_k`."""
    max_seqlen_k: Any = None

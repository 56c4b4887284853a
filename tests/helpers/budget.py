"""How wrong a result may be: the error budget.

For each element, an error of at most twice that of the plain computation there, plus one rounding
of the output. The plain computation is the same formula in the working dtype: float32 scores,
probabilities rounded to 16 bits, float32 sums. Its error at one element can be small by luck, so
it is floored by the local scale: the root sum of squares of the errors that each rounding in it
may have.

One rounding is off by 0.42 of its largest relative error, root mean square over mantissas. Twice
the local scale is thus 4.7 standard deviations, which one in 400,000 right elements passes: a large
problem has one or two. The floor is 6 standard deviations.
"""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

FLOAT32_ROUNDING = 2.0**-24
LSE_SLACK = 2e-5
FLOOR = 6 * 0.42
"""In local scales."""


@dataclass
class Budget:
    """One head's exact result and the error allowed at each element."""

    out: np.ndarray
    allowed: np.ndarray
    lse: np.ndarray
    allowed_lse: np.ndarray


def rounding_of(dtype):
    """Return the largest relative error of one rounding, and half the smallest subnormal."""
    info = ml_dtypes.finfo(dtype)
    return float(info.eps) / 2, float(info.smallest_subnormal) / 2


def plain(q, k, v, scale, sees, working):
    """Attention of one head as the hardware's types would have it, in the plainest way."""
    scores = (q.astype(np.float32) @ k.astype(np.float32).T) * np.float32(scale)
    scores = np.where(sees, scores, np.float32(-np.inf))
    empty = ~sees.any(axis=-1, keepdims=True)
    top = np.where(empty, 0, scores.max(axis=-1, keepdims=True, initial=-np.inf))
    weights = np.exp(scores - top)
    total = np.where(empty, 1, weights.sum(axis=-1, keepdims=True))
    out = weights.astype(working).astype(np.float32) @ v.astype(np.float32) / total
    lse = np.where(empty, -np.inf, top + np.log(total))[:, 0]
    return out, lse


def budget(q, k, v, scale, sees, working, out_dtype):
    """Return the budget of one head: q (Sq, D), k and v (Skv, D), sees (Sq, Skv)."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    empty = ~sees.any(axis=-1, keepdims=True)
    scores = np.where(sees, q @ k.T * scale, -np.inf)
    top = np.where(empty, 0, scores.max(axis=-1, keepdims=True, initial=-np.inf))
    weights = np.exp(scores - top)
    total = np.where(empty, 1, weights.sum(axis=-1, keepdims=True))
    shares = weights / total
    out = shares @ v
    lse = np.where(empty, -np.inf, top + np.log(total))[:, 0]
    plain_out, plain_lse = plain(q, k, v, scale, sees, working)

    relative, absolute = rounding_of(working)
    score_error = FLOAT32_ROUNDING * abs(scale) * (abs(q) @ abs(k).T)
    share_error2 = (shares * relative) ** 2 + np.where(sees, absolute / total, 0) ** 2
    from_shares = np.sqrt(share_error2 @ v**2)
    from_scores = np.sqrt((shares * score_error) ** 2 @ v**2) + abs(out) * np.sqrt(
        ((shares * score_error) ** 2).sum(axis=-1, keepdims=True)
    )
    from_sums = FLOAT32_ROUNDING * (shares @ abs(v))
    local = np.sqrt(from_shares**2 + from_scores**2 + from_sums**2)
    out_relative, out_absolute = rounding_of(out_dtype)
    rounding = np.maximum(abs(out) * out_relative, out_absolute)
    lse_local = np.sqrt(((shares * score_error) ** 2).sum(axis=-1))
    with np.errstate(invalid="ignore"):
        allowed_lse = (
            np.maximum(2 * abs(plain_lse - lse), FLOOR * lse_local)
            + abs(lse) * FLOAT32_ROUNDING
            + LSE_SLACK
        )
    return Budget(
        out,
        np.maximum(2 * abs(plain_out - out), FLOOR * local) + rounding,
        lse,
        np.where(empty[:, 0], 0, allowed_lse),
    )


def worst(got, exact, allowed):
    """Return the largest ratio of an error to what is allowed, and where; NaN counts as infinite.

    An infinite exact value must be met exactly.
    """
    got = np.asarray(got, np.float64)
    if got.shape != exact.shape:
        raise AssertionError(f"result has shape {got.shape}, expected {exact.shape}")
    if not got.size:
        return 0.0, ()
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = abs(got - exact) / allowed
    ratio = np.where(np.isfinite(exact) & np.isfinite(got), ratio, np.inf)
    ratio = np.where(got == exact, 0, ratio)
    at = np.unravel_index(np.argmax(ratio), ratio.shape)
    return float(ratio[at]), tuple(int(i) for i in at)


def assert_within_budget(case, out, lse=None, working=None):
    """Compare a whole result, (B, Sq, Hq, D) and (B, Hq, Sq), with the case's budget."""
    from helpers.problems import DTYPES

    q, k, v = case.arrays()
    working = np.dtype(working or DTYPES[case.dtype])
    rounded = [a.astype(working) for a in (q, k, v)]
    scale = case.scale if case.scale is not None else case.head_dim**-0.5
    group = case.heads // case.kv_heads
    assert out.dtype == q.dtype, f"out.dtype={out.dtype}, expected {q.dtype}"
    for b in range(case.batch):
        sees = case.visible(b)
        for h in range(case.heads):
            head_q, head_k, head_v = (
                rounded[0][b, :, h], rounded[1][b, :, h // group], rounded[2][b, :, h // group],
            )  # fmt: skip
            expected = budget(head_q, head_k, head_v, scale, sees, working, q.dtype)
            _compare("out", case, b, h, out[b, :, h], expected.out, expected.allowed)
            if lse is not None:
                _compare("lse", case, b, h, lse[b, h], expected.lse, expected.allowed_lse)


def _compare(what, case, b, h, got, exact, allowed):
    ratio, at = worst(got, exact, allowed)
    if not ratio <= 1:
        raise AssertionError(
            f"{what} of {case}, entry {b}, head {h}, at {at}: {np.asarray(got)[at]} instead of "
            f"{exact[at]:.8g}, {ratio:.3g} times the error allowed ({allowed[at]:.3g})"
        )

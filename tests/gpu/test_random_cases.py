"""Random lengths, masks and key lengths together, which no table of cases lists."""

import hypothesis.strategies as st
import pytest
from helpers.gpu import assert_parity, same_cases
from helpers.problems import Case
from hypothesis import given

pytestmark = pytest.mark.gpu

# Mostly near the edges of a tile of 64 keys and a block of 256 rows.
LENGTH = st.one_of(st.integers(1, 130), st.sampled_from((191, 192, 193, 255, 256, 257, 320)))
WIDTH = st.one_of(st.just(-1), st.integers(0, 5), st.integers(0, 300))


@st.composite
def cases(draw):
    seqlen_kv = draw(LENGTH)
    batch = draw(st.integers(1, 3))
    group, kv_heads = draw(st.sampled_from(((1, 1), (1, 2), (3, 1), (2, 2))))
    lens = draw(st.one_of(st.none(), st.tuples(*[st.integers(0, seqlen_kv)] * batch)))
    return Case(
        draw(LENGTH),
        seqlen_kv,
        heads=group * kv_heads,
        kv_heads=kv_heads,
        batch=batch,
        causal=draw(st.booleans()),
        window=(draw(WIDTH), draw(WIDTH)),
        alignment=draw(st.sampled_from(("bottom_right", "top_left"))),
        kv_lens=lens,
        amplitude=draw(st.sampled_from((1.0, 8.0))),
        seed=draw(st.integers(0, 2**16)),
    )


@same_cases(150)
@given(case=cases())
def test_within_the_error_budget(case, cp):
    assert_parity(case, cp)

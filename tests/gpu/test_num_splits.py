"""`num_splits`: how many parts the keys are cut into, by the caller's word."""

import numpy as np
import pytest
from helpers.gpu import assert_parity, bits, random
from helpers.problems import Case

import rocke_cupy
from rocke_cupy.rules.parts import MAX_PARTS

CASES = [
    Case(5, 700, heads=4, kv_heads=2, causal=True, amplitude=8),
    Case(70, 513, heads=3, kv_heads=3, window=(200, 10), kv_lens=(300,)),
    Case(1, 40, heads=2, kv_heads=1, head_dim=40),  # fewer tiles of keys than parts
    Case(300, 100, heads=1, kv_heads=1, causal=True),  # 200 rows see no key
]


@pytest.mark.gpu
@pytest.mark.parametrize("splits", [1, 2, MAX_PARTS])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_any_number_of_parts_gives_the_result(case, splits, cp):
    assert_parity(case, cp, num_splits=splits)


@pytest.mark.gpu
@pytest.mark.parametrize("splits", [None, 1, 3, MAX_PARTS])
def test_packed_sequences_may_be_split(splits, cp, rng):
    q, k, v = (random(rng, n, 4, 64) for n in (80, 400, 400))
    starts = ([0, 3, 3, 70], [0, 130, 140, 390])
    exact, exact_lse = rocke_cupy.attention_varlen(q, k, v, *starts, causal=True, return_lse=True)
    out, lse = rocke_cupy.attention_varlen(
        *map(cp.asarray, (q, k, v)), *starts, causal=True, return_lse=True, num_splits=splits
    )
    np.testing.assert_allclose(
        cp.asnumpy(out).astype(np.float32), exact.astype(np.float32), atol=0.03
    )
    np.testing.assert_allclose(cp.asnumpy(lse), exact_lse, rtol=1e-5)


@pytest.mark.gpu
def test_keys_that_are_never_split_give_bits_that_do_not_depend_on_the_batch(cp, rng):
    # 130 entries keep the GPU busy by themselves, one does not.
    q, k, v = (cp.asarray(random(rng, 130, n, 1, 64)) for n in (1, 2048, 2048))
    whole, one = (bits(rocke_cupy.attention(x, k[: len(x)], v[: len(x)]), cp) for x in (q, q[:1]))
    assert (whole[:1] != one).any(), "the parts that suit depend on the batch"
    whole, one = (
        bits(rocke_cupy.attention(x, k[: len(x)], v[: len(x)], num_splits=1), cp)
        for x in (q, q[:1])
    )
    np.testing.assert_array_equal(whole[:1], one)


@pytest.mark.gpu
def test_another_number_is_another_plan(cp, rng):
    q, k, v = (cp.asarray(random(rng, 1, n, 2, 64)) for n in (1, 3000, 3000))
    results = {
        bits(rocke_cupy.attention(q, k, v, num_splits=splits), cp).tobytes()
        for splits in (1, 2, 3, 32, 1, 2, 3, 32)
    }
    assert len(results) == 4


@pytest.mark.parametrize(
    ("splits", "error"),
    [(0, ValueError), (33, ValueError), (-1, ValueError), (2.0, TypeError), ("2", TypeError)],
)
@pytest.mark.parametrize("library", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_other_numbers_are_refused(splits, error, library):
    q = pytest.importorskip(library).zeros((1, 4, 2, 64), np.float16)
    sentence = f"num_splits={splits!r} must be None or a whole number from 1 to 32"
    for function in (rocke_cupy.attention, rocke_cupy.reference.attention)[
        : 1 + (library == "numpy")
    ]:
        with pytest.raises(error, match=sentence):
            function(q, q, q, num_splits=splits)
    with pytest.raises(error, match=sentence):
        rocke_cupy.attention_varlen(q[0], q[0], q[0], [0, 4], [0, 4], num_splits=splits)

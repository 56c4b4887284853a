"""The hipBLAS and hipRAND stand-ins, through CuPy."""

import ml_dtypes
import numpy as np
import pytest

from rocke_cupy.emulator import device

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _virtual():
    if not device.active():
        pytest.skip("the device here is a real one")


def normal(rng, *shape, dtype=np.float32):
    numbers = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        numbers = numbers + 1j * rng.standard_normal(shape)
    return numbers.astype(dtype)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(np.float16, 1e-3), (np.float32, 1e-6), (np.float64, 1e-14), (np.complex64, 1e-6),
     (np.complex128, 1e-14)],
)  # fmt: skip
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_matrix_products(cp, rng, dtype, tolerance, transposed):
    a, b = normal(rng, 17, 33, dtype=dtype), normal(rng, 33, 9, dtype=dtype)
    x, y = cp.asarray(a), cp.asarray(b)
    if transposed[0]:
        x = cp.asarray(np.ascontiguousarray(a.T)).T
    if transposed[1]:
        y = cp.asarray(np.ascontiguousarray(b.T)).T
    wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
    expected = a.astype(wide) @ b.astype(wide)
    for result in (x @ y, cp.dot(x, y)):
        assert result.dtype == dtype
        assert np.abs(result.get() - expected).max() < tolerance * np.abs(expected).max()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_batches_of_products(cp, rng, dtype):
    a, b = normal(rng, 3, 4, 5, 6, dtype=dtype), normal(rng, 3, 4, 6, 7, dtype=dtype)
    result = cp.matmul(cp.asarray(a), cp.asarray(b))
    np.testing.assert_allclose(result.get(), np.matmul(a, b), rtol=5e-3, atol=5e-3)
    # one of the two is the same for all of a batch: batched by pointers
    result = cp.matmul(cp.asarray(a), cp.asarray(b[0, 0]))
    np.testing.assert_allclose(result.get(), np.matmul(a, b[0, 0]), rtol=5e-3, atol=5e-3)


def test_an_operand_out_of_bounds_is_refused(cp, capfd):
    whole, factor = cp.zeros((8, 8), np.float32), cp.zeros((8, 8), np.float32)
    memory = cp.cuda.UnownedMemory(whole.data.ptr, 4 * 128, whole)
    longer = cp.ndarray((16, 8), np.float32, cp.cuda.MemoryPointer(memory, 0))
    with pytest.raises(cp.cuda.cublas.CUBLASError):
        longer @ factor
    assert "has 512 bytes, but its allocation ends after 256" in capfd.readouterr().err
    assert cp.random.rand(0).size == 0


def test_float16_is_summed_in_float32(cp):
    a = np.full((1, 4096), 1, np.float16)
    assert (cp.asarray(a) @ cp.asarray(a.T)).get() == 4096  # 2048 if summed in float16


def test_vectors_and_contractions(cp, rng):
    a, b = normal(rng, 40), normal(rng, 40, 5)
    assert cp.dot(cp.asarray(a), cp.asarray(a)).get() == pytest.approx(a @ a, rel=1e-6)
    np.testing.assert_allclose((cp.asarray(a) @ cp.asarray(b)).get(), a @ b, rtol=1e-5, atol=1e-6)
    q = normal(rng, 2, 3, 4)
    result = cp.einsum("bid,bjd->bij", cp.asarray(q), cp.asarray(q)).get()
    np.testing.assert_allclose(result, np.einsum("bid,bjd->bij", q, q), rtol=1e-5, atol=1e-6)
    result = (
        cp.tensordot(cp.asarray(q), cp.asarray(q), 2).get() if q.shape[1:] == q.shape[:2] else 0
    )
    assert result == 0


def test_an_empty_product_is_zero(cp):
    result = cp.asarray(np.empty((3, 0), np.float32)) @ cp.asarray(np.empty((0, 4), np.float32))
    assert result.get().tolist() == [[0] * 4] * 3


def test_a_product_into_a_view(cp, rng):
    a, b = normal(rng, 4, 5), normal(rng, 5, 6)
    out = cp.asarray(np.zeros((4, 6), np.float32))
    cp.matmul(cp.asarray(a), cp.asarray(b), out=out)
    np.testing.assert_allclose(out.get(), a @ b, rtol=1e-5, atol=1e-6)


def test_bfloat16_products_go_through_float32(cp, rng):
    a = normal(rng, 8, 16).astype(ml_dtypes.bfloat16)
    x = cp.asarray(a).astype(np.float32)
    expected = a.astype(np.float32) @ a.astype(np.float32).T
    np.testing.assert_allclose((x @ x.T).get(), expected, rtol=1e-5, atol=1e-5)


def test_a_library_function_that_is_missing_says_so(cp, capfd):
    with pytest.raises(cp.cuda.cusolver.CUSOLVERError):
        cp.linalg.qr(cp.asarray(np.eye(3, dtype=np.float32)))
    assert "is not supported on the virtual device" in capfd.readouterr().err


def test_random_numbers_repeat_with_their_seed(cp):
    cp.random.seed(5)
    first = cp.random.random(100).get()
    assert (cp.random.random(100).get() != first).all()
    cp.random.seed(5)
    assert (cp.random.random(100).get() == first).all()
    cp.random.seed(6)
    assert (cp.random.random(100).get() != first).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_random_distributions(cp, dtype):
    state = cp.random.RandomState(1)
    uniform = state.random_sample(4001, dtype=dtype).get()
    assert uniform.dtype == dtype
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.02
    normal = state.normal(3, 2, 4001, dtype=dtype).get()
    assert abs(normal.mean() - 3) < 0.15
    assert abs(normal.std() - 2) < 0.1
    skewed = state.lognormal(0, 1, 4001, dtype=dtype).get()
    assert abs(np.log(skewed).mean()) < 0.06


def test_random_integers(cp):
    numbers = cp.random.RandomState(1).randint(0, 10, 3000).get()
    assert sorted(set(numbers.tolist())) == list(range(10))
    counts = np.bincount(numbers)
    assert counts.min() > 220
    assert counts.max() < 380

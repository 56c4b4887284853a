"""`run`: arguments, buffers, launch checks, and the report."""

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, hiprtc, launch, load, run
from rocke_cupy.emulator.assemble import assemble_kernel
from rocke_cupy.emulator.execution.memory import Buffer, BufferTable

SOURCE = """
extern "C" __global__ __launch_bounds__(256)
void scale(float by, const float* x, float* y, int n, const float* bias) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = by * x[i] + (bias ? bias[i] : 0.0f);
}
extern "C" __global__ __launch_bounds__(64) void dynamic(int* out) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = tile[threadIdx.x] + gridDim.x * 100 + blockDim.y * 1000 + blockIdx.y * 10000;
}
extern "C" __global__ void where(float* a, float* b, float* c, unsigned long long* out) {
    out[0] = (unsigned long long)a, out[1] = (unsigned long long)b;
    out[2] = (unsigned long long)c, out[3] = (unsigned long long)out;
}
extern "C" __global__ __launch_bounds__(64) void indirect(float** rows, float* out) {
    out[threadIdx.x] = rows[threadIdx.x / 32][threadIdx.x % 32];
}
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    return hiprtc.compile(SOURCE).code


X = np.linspace(-1, 1, 300, dtype=np.float32)


def scaled(code, args=None, **options):
    y = np.zeros(300, np.float32)
    full = [np.float32(2.0), X, y, np.int32(300), None] if args is None else args(y)
    report = run(code, "scale", (2,), (256,), full, **options)
    return report, y


class TestArguments:
    def test_arrays_scalars_and_null(self, code):
        _, y = scaled(code)
        np.testing.assert_array_equal(y, 2 * X)

    def test_arrays_are_views_with_exact_bounds(self, code):
        storage = np.full(600, np.nan, np.float32)
        run(code, "scale", (2,), (256,), [np.float32(2), X, storage[100:400], np.int32(300), None])
        np.testing.assert_array_equal(storage[100:400], 2 * X)
        assert np.isnan(storage[:100]).all()
        with pytest.raises(EmulationError, match="global write"):
            run(code, "scale", (2,), (256,), [np.float32(2), X, storage[:299], np.int32(300), None])

    def test_one_array_may_be_two_arguments(self, code):
        both = X.copy()
        run(code, "scale", (2,), (256,), [np.float32(2), both, both, np.int32(300), both])
        np.testing.assert_array_equal(both, 3 * X)

    def test_the_kernel_sees_addresses_of_the_device(self, code):
        storage = np.zeros(4096, np.uint8)
        seen = []
        for start in (0, 16, 48):
            array = storage[start : start + 1024].view(np.float32)
            out = np.zeros(4, np.uint64)
            run(code, "where", (1,), (64,), [array, array[3:], array[1:2].copy(), out])
            seen.append(out.tolist())
        assert seen[0] == seen[1] == seen[2]
        first, later, other, itself = seen[0]
        assert first % 4096 == other % 4096 == itself % 4096 == 0
        assert later == first + 12
        assert len({first, other, itself}) == 3

    def test_a_view_is_no_better_aligned_on_the_device(self, code):
        x, out = np.zeros(8, np.float32), np.zeros(4, np.uint64)
        run(code, "where", (1,), (64,), [x[1:], x[:0], None, out])
        assert out[0] % 4096 == 4
        assert out[2] == 0

    def test_raw_bytes_with_buffers(self, code):
        y = np.zeros(300, np.float32)
        block = np.zeros(40, np.uint8)
        block[0:4].view(np.float32)[0] = 2.0
        block[8:24].view(np.uint64)[:] = X.ctypes.data, y.ctypes.data
        block[24:28].view(np.int32)[0] = 300
        run(code, "scale", (2,), (256,), block.tobytes(), buffers=[X, y])
        np.testing.assert_array_equal(y, 2 * X)
        with pytest.raises(EmulationError, match=r"past its end|before buffer"):
            run(code, "scale", (2,), (256,), block.tobytes(), buffers=[X])

    def test_pointers_in_memory_need_buffers(self, code):
        rows = [np.arange(32, dtype=np.float32) + 100 * k for k in range(2)]
        pointers = np.array([row.ctypes.data for row in rows], np.uint64)
        out = np.zeros(64, np.float32)
        run(code, "indirect", (1,), (64,), [pointers, out], buffers=rows)
        np.testing.assert_array_equal(out.reshape(2, 32), rows)
        with pytest.raises(EmulationError, match="global read"):
            run(code, "indirect", (1,), (64,), [pointers, out])

    @pytest.mark.parametrize(
        ("change", "error", "text"),
        [
            (lambda y: [np.float32(2), X, y], ValueError, "takes 5 arguments, got 3"),
            (lambda y: [2.0, X, y, np.int32(300), None], TypeError, "must be a NumPy array"),
            (lambda y: [np.float64(2), X, y, np.int32(300), None], ValueError, "has 8 bytes"),
        ],
    )
    def test_wrong_ones_are_refused(self, code, change, error, text):
        with pytest.raises(error, match=text):
            scaled(code, change)

    def test_a_short_block_is_refused(self, code):
        with pytest.raises(ValueError, match="takes 40 bytes of arguments, got 8"):
            run(code, "scale", (1,), (64,), bytes(8))

    def test_a_path_is_read(self, code, tmp_path):
        path = tmp_path / "scale.co"
        path.write_bytes(code)
        _, y = scaled(path)
        np.testing.assert_array_equal(y, 2 * X)


class TestLaunch:
    def test_hidden_arguments_and_dynamic_lds(self, code):
        out = np.zeros(64, np.int32)
        run(code, "dynamic", (3, 2), (32, 2), [out], shared_mem=256, workgroups=[4])
        expected = np.r_[np.arange(32), np.zeros(32)] + 300 + 2000 + 10000
        np.testing.assert_array_equal(out[:32], expected[:32])

    def test_too_little_dynamic_lds(self, code):
        with pytest.raises(EmulationError, match="LDS access of 4 bytes at address 128"):
            run(code, "dynamic", (1,), (64,), [np.zeros(64, np.int32)], shared_mem=128)

    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"memory": "slow"}, "memory='slow' must be one of"),
            ({"schedule": "fair"}, "schedule='fair' must be one of"),
            ({"races": "some"}, "races='some' must be one of"),
            ({"quantum": 0}, "quantum=0 must be at least 1"),
            ({"shared_mem": 200_000}, "shared_mem=200000"),
        ],
    )
    def test_wrong_options_are_refused(self, code, options, text):
        with pytest.raises(ValueError, match=text):
            scaled(code, **options)

    @pytest.mark.parametrize(
        ("grid", "block", "text"),
        [
            ((0,), (64,), "grid="),
            ((1,), (512,), "compiled for at most 256"),
            ((1, 1, 1, 1), (64,), "grid="),
            ((65536, 65536), (64,), r"2\*\*32 workgroups"),
        ],
    )
    def test_wrong_shapes_are_refused(self, code, grid, block, text):
        with pytest.raises(ValueError, match=text):
            run(code, "scale", grid, block, [np.float32(2), X, X, np.int32(0), None])

    def test_an_unknown_kernel(self, code):
        with pytest.raises(
            ValueError, match=r"kernel='nothing' .* dynamic, indirect, scale, where"
        ):
            run(code, "nothing", (1,), (64,), [])

    @pytest.mark.parametrize("threads", [1, 3])
    def test_threads_share_the_workgroups(self, code, threads):
        x = np.arange(256 * 200, dtype=np.float32)
        y = np.zeros_like(x)
        args = [np.float32(2), x, y, np.int32(x.size), None]
        report = run(code, "scale", (200,), (256,), args, threads=threads)
        np.testing.assert_array_equal(y, 2 * x)
        assert report.count("s_endpgm") == 800

    def test_buffers_may_not_overlap(self, code):
        buffers = [Buffer(X.ctypes.data, 100, "a"), Buffer(X.ctypes.data + 50, 100, "b")]
        with pytest.raises(ValueError, match="buffers a and b overlap"):
            launch(load(code), "scale", (1,), (64,), bytes(40), buffers)


class TestReport:
    def test_counts(self, code):
        report, _ = scaled(code)
        assert report.workgroups == 2
        assert report.count("s_endpgm") == 8
        assert report.count("global_store_*") == report.instructions["global_store_dword"] == 5
        assert report.counts.shape[0] == 4
        assert report.per_wave.sum() == report.total == report.per_instruction.sum()
        assert report.per_wave[0] > report.per_wave[3]  # the last wave has nothing to do
        assert report.global_bytes[1] == 300 * 4

    def test_regions_are_basic_blocks(self):
        body = """
  s_mov_b32 s9, 0
again:
  s_add_u32 s9, s9, 1
  s_cmp_lt_u32 s9, 5
  s_cbranch_scc1 again
  s_cbranch_execz never
  s_endpgm
never:
  s_nop 0
  s_endpgm
"""
        report = run(assemble_kernel("k", body, pointers=0), "k", (2,), (64,), [])
        found = [(len(r.instructions), r.entries, r.total) for r in report.regions]
        assert found == [(1, 2, 2), (3, 10, 30), (1, 2, 2), (1, 2, 2)]
        assert [r.label for r in report.regions][:2] == ["k+0x0", "again+0x0"]
        assert "           30          10      3  again+0x0" in str(report)

    def test_text(self, code):
        report, _ = scaled(code)
        text = str(report)
        assert "scale  grid (2, 1, 1)  block (256, 1, 1): 2 workgroups" in text
        assert "global_store_dword" in text
        assert "1,200 written" in text


class TestBufferTable:
    table = BufferTable([Buffer(2000, 100, "b"), Buffer(1000, 100, "a", writable=False)])

    @pytest.mark.parametrize(
        ("address", "text"),
        [
            (1004, "at offset 4 of buffer a of 100 bytes, which is read-only"),
            (2098, "at offset 98 of buffer b of 100 bytes, running past its end"),
            (2108, "at offset 108 of buffer b of 100 bytes, 8 bytes past its end"),
            (2100, "at offset 100 of buffer b of 100 bytes, right past its end"),
            (5, "through a null pointer, 5 bytes past it"),
            (0, "through a null pointer"),
            ((1 << 64) - 8, "through a null pointer, 8 bytes before it"),
            (996, "at 4 bytes before buffer a of 100 bytes"),
        ],
    )
    def test_it_names_the_nearest_buffer(self, address, text):
        assert self.table.explain(address) == text

    def test_without_any(self):
        assert "there are no buffers" in BufferTable([]).explain(1 << 40)

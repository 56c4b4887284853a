"""What a kernel asks of the host: printf, failed asserts; and what only a device has."""

import struct

import numpy as np
import pytest

from rocke_cupy.emulator import EmulationError, device, hiprtc, run
from rocke_cupy.emulator.execution.hostcall import format_printf

SOURCE = r"""
#include <assert.h>
extern "C" __global__ void numbers(const double* x, int* printed) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  const char* word = i % 2 ? "odd" : "even";
  if (i % 50 == 7)
    printed[i] = printf("%d %5.2f|%-4d|%s|%lx%%\n", i, x[i], -i, word, (1l << 40) + i);
}
extern "C" __global__ void words(const char* text) {
  if (threadIdx.x == 3)
    printf("a text that takes many packets of seven words each: %s and %c%c", text, 'o', 'k');
}
extern "C" __global__ void claims(const int* x, int bound) {
  assert(x[threadIdx.x] < bound && "all are small");
}
extern "C" __global__ void gives_up(const int* x) { if (x[threadIdx.x] == 5) abort(); }
extern "C" __global__ void allocates(int** out) { out[threadIdx.x] = (int*)malloc(64); }
struct Pair { int first, second; };
extern "C" __global__ void follows(Pair* pair, int* out) { out[threadIdx.x] = pair->second; }
extern "C" __global__ void before(int* x, int* out) { out[threadIdx.x] = x[-2]; }
"""


@pytest.fixture(scope="module", params=["7.0", "7.14"])
def code(request):
    return hiprtc.compile(SOURCE, ["-O2", "-gline-tables-only"], rocm=request.param).code


@pytest.mark.network
class TestPrintf:
    @pytest.mark.parametrize("memory", ["lazy", "eager"])
    @pytest.mark.parametrize("schedule", ["lockstep", "random"])
    def test_each_lane_prints_once(self, code, capsys, memory, schedule):
        n = 64 * 3 * 20
        x, printed = np.arange(n) / 4, np.zeros(n, np.int32)
        options = {"memory": memory, "schedule": schedule, "threads": 3}
        run(code, "numbers", (20,), (192,), [x, printed], **options)
        chosen = range(7, n, 50)
        words = ["even", "odd"]
        lines = [f"{i} {i / 4:5.2f}|{-i:<4d}|{words[i % 2]}|{(1 << 40) + i:x}%\n" for i in chosen]
        assert sorted(capsys.readouterr().out.splitlines(keepends=True)) == sorted(lines)
        assert printed[chosen].tolist() == [len(line) for line in lines]

    def test_long_texts_come_in_parts(self, code, capsys):
        text = "0123456789 " * 20
        run(code, "words", (1,), (64,), [np.frombuffer(text.encode() + b"\0", np.uint8)])
        start = "a text that takes many packets of seven words each: "
        assert capsys.readouterr().out == f"{start}{text} and ok"


@pytest.mark.network
def test_a_failed_assert_is_an_error_with_its_text_and_line(code, capfd):
    x = np.arange(64, dtype=np.int32)
    run(code, "claims", (1,), (64,), [x, np.int32(64)])
    with pytest.raises(EmulationError) as error:
        run(code, "claims", (1,), (64,), [x, np.int32(63)])
    assert error.value.kind == "trap"
    line = 1 + SOURCE.split("\n").index('  assert(x[threadIdx.x] < bound && "all are small");')
    message, place = str(error.value).split("\n")[:2]
    assert f"kernel.hip:{line}: " in message
    assert message.endswith('assertion `x[threadIdx.x] < bound && "all are small"\' failed.')
    assert "kernel claims, workgroup 0" in place
    assert capfd.readouterr().err == ""


@pytest.mark.network
def test_abort_says_so(code):
    with pytest.raises(EmulationError, match=r"trapped \(abort"):
        run(code, "gives_up", (1,), (64,), [np.arange(64, dtype=np.int32)])


@pytest.mark.network
@pytest.mark.parametrize(
    ("kernel", "args", "text"),
    [
        ("allocates", [np.zeros(64, np.uint64)], "in the heap of malloc, free, new and delete"),
        ("follows", [None, np.zeros(64, np.int32)], r"through a null pointer, 4 bytes past it$"),
        ("before", [None, np.zeros(64, np.int32)], r"through a null pointer, 8 bytes before it$"),
        ("gives_up", [None], r"through a null pointer$"),
    ],
)
def test_an_access_to_what_is_not_there_says_what(code, kernel, args, text):
    with pytest.raises(EmulationError, match="(?m)global read of [0-9]+ bytes " + text):
        run(code, kernel, (1,), (64,), args)


class TestFormat:
    @pytest.mark.parametrize(
        ("template", "arguments", "text"),
        [
            (b"100%", [], b"100%"),
            (b"%d%%", [7], b"7%"),
            (
                b"%hhd %hd %d %lld",
                [0x1FF, 0x1FFFF, 0x1FFFFFFFF, 1 << 40],
                b"-1 -1 -1 1099511627776",
            ),
            (b"%*d|%-*.*f|", [5, 42, 8, 2, 3.14159], b"   42|3.14    |"),
            (b"%a %g", [1.0, 1e300], b"0x1p+0 1e+300"),
            (b"%p", [0x2000], b"0x2000"),
            (b"%s-%s-%d", [b"", b"12345678", 3], b"-12345678-3"),
            (b"%n%d", [1, 2], b"2"),
            (b"%d and %d", [1], b"1 and "),
        ],
    )
    def test_as_c_does(self, template, arguments, text):
        message = padded(template)
        for value in arguments:
            if isinstance(value, bytes):
                message += padded(value)
            else:
                message += struct.pack("<d" if isinstance(value, float) else "<Q", value)
        assert format_printf(message) == text


def padded(text: bytes) -> bytes:
    return text + bytes(8 - len(text) % 8)


@pytest.mark.gpu
class TestThroughCupy:
    @pytest.fixture(autouse=True)
    def _virtual(self):
        if not device.active():
            pytest.skip("the device here is a real one")

    @pytest.fixture
    def module(self, cp):
        return cp.RawModule(code=SOURCE)

    def test_printf(self, cp, module, capsys):
        printed = cp.zeros(64, np.int32)
        module.get_function("numbers")((1,), (64,), (cp.zeros(64), printed))
        assert (
            capsys.readouterr().out
            == "7  0.00|-7  |odd|10000000007%\n57  0.00|-57 |odd|10000000039%\n"
        )

    def test_a_failed_assert(self, cp, module):
        with pytest.raises(cp.cuda.driver.CUDADriverError, match=r"assertion `x.*small\"' failed"):
            module.get_function("claims")((1,), (64,), (cp.arange(64, dtype=np.int32), cp.int32(9)))

    def test_a_null_pointer(self, cp, module):
        with pytest.raises(cp.cuda.driver.CUDADriverError, match="through a null pointer, 4 bytes"):
            module.get_function("follows")((1,), (64,), (np.uint64(0), cp.zeros(64, np.int32)))

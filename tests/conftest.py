"""What all tests share: a generator that repeats, and the GPU, virtual or real, if there is one."""

import signal
import zlib

import numpy as np
import pytest

from rocke_cupy.tools.config import last_words


def pytest_configure():
    # A shell starts what it puts in the background with Ctrl-C ignored, which children inherit:
    # those that tests interrupt would go on.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng(request):
    """A random generator seeded by the test's name: a red test is red again."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


def _why_no_gpu():
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported: {last_words(error)}"
    return "" if cupy.cuda.is_available() else "CuPy finds no device"


def pytest_collection_modifyitems(items):
    gpu_tests = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_tests and (why := _why_no_gpu()):
        reason = f"{why}; run them by: python -m rocke_cupy.emulator -m pytest -m gpu"
        for item in gpu_tests:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def cp():
    """CuPy, for tests marked gpu."""
    import cupy

    return cupy

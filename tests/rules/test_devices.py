"""Arrays on several devices, which no machine of ours has: stand-ins with a device number."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from rocke_cupy.rules.arrays import check_devices
from rocke_cupy.rules.lengths import check_key_lengths


def on(device):
    return SimpleNamespace(device=SimpleNamespace(id=device))


@pytest.mark.parametrize("odd", ["q", "k", "v", "out"])
def test_arrays_on_different_devices_are_refused(odd):
    arrays = {name: on(int(name == odd)) for name in ("q", "k", "v", "out")}
    first, other = ("q", odd) if odd != "q" else ("q", "k")
    with pytest.raises(ValueError, match=rf"{first} is on device . and {other} on device .: all"):
        check_devices(**arrays)


def test_arrays_on_one_device_pass_whatever_its_number():
    check_devices(q=on(3), k=on(3), v=on(3), out=None)


def test_lengths_on_another_device_are_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=SimpleNamespace))
    lengths = on(1)
    lengths.shape, lengths.dtype = (1,), np.dtype(np.int32)
    with pytest.raises(ValueError, match="q is on device 0 and kv_lens on device 1"):
        check_key_lengths(lengths, q=on(0), out=None, batch=1, seqlen_kv=5, check=True)

"""Arrays on several devices, which no machine of ours has: stand-ins with a device number."""

from types import SimpleNamespace

import numpy as np
import pytest

from rocke_cupy import _checks


def on(device):
    return SimpleNamespace(device=SimpleNamespace(id=device))


@pytest.mark.parametrize("odd", ["q", "k", "v", "out"])
def test_arrays_on_different_devices_are_refused(odd):
    arrays = {name: on(int(name == odd)) for name in ("q", "k", "v", "out")}
    first, other = ("q", odd) if odd != "q" else ("q", "k")
    with pytest.raises(ValueError, match=rf"{first} is on device . and {other} on device .: all"):
        _checks.check_devices(**arrays)


def test_arrays_on_one_device_pass_whatever_its_number():
    _checks.check_devices(q=on(3), k=on(3), v=on(3), out=None)


def test_lengths_on_another_device_are_refused(monkeypatch):
    import sys

    from rocke_cupy import _device

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(ndarray=SimpleNamespace))
    lengths = on(1)
    with pytest.raises(ValueError, match="q is on device 0 and kv_lens on device 1"):
        _device.on_device(lengths, np.zeros(1), 0, "kv_lens", None)

"""Arrays with NaN all around them, to see reads and writes that leave them."""

import numpy as np

_ELEMENTS = 4096


class Fenced:
    """An array inside a larger buffer of NaN, on the host or on a device.

    ``gaps`` leaves NaN between rows too: the array is then a view with larger strides.
    """

    def __init__(self, values, xp=np, gaps=False):
        self._host, self._block = _surrounded(values, gaps)
        self._shape = values.shape
        self._xp = xp
        self._buffer = xp.asarray(self._host.copy())
        self.array = self._corner(self._buffer)

    @classmethod
    def empty(cls, shape, dtype, xp=np, gaps=False):
        """Return one to write to, full of NaN."""
        return cls(np.full(shape, np.nan, dtype), xp, gaps)

    def numpy(self):
        """Return the array on the host."""
        # Whole buffers only: on the virtual device CuPy cannot copy a view with gaps.
        return self._corner(self._fetch())

    def assert_fence_intact(self):
        """Raise AssertionError if anything around the array was written."""
        now = self._fetch()
        changed = _bits(now) != _bits(self._host)
        self._corner(changed)[...] = False
        wrong = np.flatnonzero(changed)
        if wrong.size:
            raise AssertionError(
                f"{wrong.size} elements outside the array were written, the first at "
                f"{int(wrong[0]) - _ELEMENTS} elements from its start"
            )

    def _fetch(self):
        return self._buffer if self._xp is np else self._xp.asnumpy(self._buffer)

    def _corner(self, buffer):
        block = buffer[_ELEMENTS : _ELEMENTS + self._block.size].reshape(self._block.shape)
        return block[tuple(slice(0, n) for n in self._shape)]


def _surrounded(values, gaps):
    """Return a flat NaN buffer with ``values`` in it, and the block that they are a corner of."""
    shape = tuple(n + (8 if gaps and n else 0) for n in values.shape)
    block = np.full(shape, np.nan, values.dtype)
    block[tuple(slice(0, n) for n in values.shape)] = values
    fence = np.full(_ELEMENTS, np.nan, values.dtype)
    return np.concatenate([fence, block.ravel(), fence]), block


def _bits(array):
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")

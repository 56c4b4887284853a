"""Declarations of the HIP sources, read into NumPy: what they must be, and what is refused."""

import numpy as np
import pytest

from rocke_cupy.kernels import layouts, source
from rocke_cupy.kernels.layouts import constant, structure

HEADER = """
constexpr int two = 2, unread = 3;
constexpr int five = two * two + 1;  // a sum; of products
using Addresses = const int32*;
struct Inner {  // in bytes
  int64 axis[two];
  int32 number;
};
struct Outer {
  const char *a, *b[five];
  float scale;     // comments; may have semicolons
  Addresses where;
  Inner inner, more[2];
  uint32 last;
};
struct Odd {
  int32 (*function)(int);
};
struct Unknown {
  double x;
};
"""


@pytest.fixture(autouse=True)
def header(tmp_path, monkeypatch):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "h.h").write_text(HEADER)
    monkeypatch.setattr(source, "kernels_src", lambda: tmp_path)
    for cached in (structure, constant, layouts._text):
        cached.cache_clear()
    yield
    for cached in (structure, constant, layouts._text):
        cached.cache_clear()


def test_a_structure_is_laid_out_as_in_cpp():
    outer, inner = structure("common/h.h", "Outer"), structure("common/h.h", "Inner")
    assert inner == np.dtype([("axis", "i8", 2), ("number", "i4")], align=True)
    assert [(n, outer.fields[n][1]) for n in outer.names] == [
        ("a", 0), ("b", 8), ("scale", 48), ("where", 56), ("inner", 64), ("more", 88), ("last", 136)
    ]  # fmt: skip
    assert outer.itemsize == 144


def test_constants_may_be_computed_from_others():
    assert constant("common/h.h", "five") == 5


@pytest.mark.parametrize(
    ("read", "name", "sentence"),
    [
        (structure, "Nothing", "declares no struct Nothing"),
        (structure, "Odd", "struct Odd has"),
        (structure, "Unknown", "declares no struct double"),
        (constant, "nothing", "declares no constexpr int nothing"),
    ],
)
def test_what_cannot_be_read_is_named(read, name, sentence):
    with pytest.raises(ValueError, match=sentence):
        read("common/h.h", name)

"""Calls that must be refused, for NumPy and for CuPy arrays alike.

Each is a function of ``put``, which moves a NumPy array to the library under test, with the error
and a pattern of its sentence.
"""

from dataclasses import dataclass
from functools import partial

import ml_dtypes
import numpy as np

import rocke_cupy

BF16 = np.dtype(ml_dtypes.bfloat16)
MASKED_LENGTHS = np.ma.masked_array(np.array([7, 7], "i4"), [False, True])


class Numberlike:
    """An object with a number, which may change while the object stays the same."""

    dtype, shape = np.dtype(np.float32), ()

    def __float__(self):
        return 0.125

    def __index__(self):
        return 3


@dataclass(frozen=True)
class WrongCall:
    """A call, the error that it must raise and what the message must say."""

    name: str
    call: object
    error: type
    sentence: str
    mistake: dict | None = None
    """What it changes of a right call, if that can be joined with other changes."""


def zeros(*shape, dtype=BF16):
    return np.zeros(shape, dtype)


def dense(name, error, sentence, **changes):
    """A call of `attention`, right but for ``changes``; arrays among them are moved by ``put``."""

    return WrongCall(name, partial(call_dense, changes), error, sentence, changes)


def call_dense(changes, put):
    """Call `attention` with arguments that are right but for ``changes``."""
    arguments = dict(q=zeros(2, 5, 4, 16), k=zeros(2, 7, 2, 16), v=zeros(2, 7, 2, 16))
    arguments.update(changes)
    moved = {
        key: put(value) if type(value) is np.ndarray and value.dtype.kind != "U" else value
        for key, value in arguments.items()
    }
    return rocke_cupy.attention(moved.pop("q"), moved.pop("k"), moved.pop("v"), **moved)


def packed(name, error, sentence, **changes):
    """A call of `attention_varlen`, right but for ``changes``; tuples are moved as int32."""
    return WrongCall(name, partial(call_packed, changes), error, sentence, changes)


def call_packed(changes, put):
    """Call `attention_varlen` with arguments that are right but for ``changes``."""
    arguments = dict(q=zeros(9, 4, 16), k=zeros(10, 2, 16), v=zeros(10, 2, 16))
    arguments.update(cu_q=(0, 3, 9), cu_k=(0, 4, 8))
    arguments.update(changes)
    q, k, v = (put(arguments.pop(n)) for n in "qkv")
    starts = [
        put(np.array(c, np.int32)) if isinstance(c, tuple) else c
        for c in (arguments.pop("cu_q"), arguments.pop("cu_k"))
    ]
    return rocke_cupy.attention_varlen(q, k, v, *starts, **arguments)


def aliasing(name, sentence, call):
    return WrongCall(name, call, ValueError, sentence)


def out_is_q(put):
    q = put(zeros(1, 4, 2, 16))
    return rocke_cupy.attention(q, q, q, out=q)


def out_shifted_into_k(put):
    buffer = put(zeros(1, 6, 2, 16))
    q, k = put(zeros(1, 4, 2, 16)), buffer[:, :4]
    return rocke_cupy.attention(q, k, q, out=buffer[:, 2:])


def out_in_v_by_another_view(put):
    v = put(zeros(1, 4, 2, 32))
    q = put(zeros(1, 4, 2, 16))
    return rocke_cupy.attention(q, q, v[..., 16:], out=v[..., 8:24])


def out_over_kv_lens(put):
    buffer = put(np.zeros(128, np.float16))
    lengths = buffer[:4].view(np.int32)
    q = put(zeros(2, 4, 1, 16, dtype=np.float16))
    return rocke_cupy.attention(q, q, q, kv_lens=lengths, out=buffer.reshape(q.shape))


def out_over_cu_seqlens_k(put):
    buffer = put(np.zeros(128, np.float16))
    starts = buffer[:4].view(np.int32)
    q = put(zeros(8, 1, 16, dtype=np.float16))
    return rocke_cupy.attention_varlen(q, q, q, [0, 0], starts, out=buffer.reshape(q.shape))


def out_broadcast(put):
    out = put(zeros(1, 1, 2, 16))
    out = broadcast_writeable(out, (1, 4, 2, 16))
    q = put(zeros(1, 4, 2, 16))
    return rocke_cupy.attention(q, q, q, out=out)


def broadcast_writeable(array, shape):
    """Broadcast a NumPy or CuPy array, writeable."""
    if isinstance(array, np.ndarray):
        return np.lib.stride_tricks.as_strided(
            array,
            shape,
            [0 if n == 1 else s for n, s in zip(array.shape, array.strides, strict=True)],
        )
    import cupy

    return cupy.broadcast_to(array, shape)


WRONG_CALLS = [
    # Array kinds
    dense("q a list", TypeError, "q must be a numpy.ndarray or a cupy.ndarray, not list", q=[[1]]),
    dense("k None", TypeError, "k must be a numpy.ndarray or a cupy.ndarray, not None", k=None),
    dense("v a text", TypeError, "v must be a numpy.ndarray or a cupy.ndarray, not str", v="v"),
    dense("out a list", TypeError, "out must be a numpy.ndarray or", out=[1]),
    # Shapes
    dense("q 3-D", ValueError, r"q\.shape=\(5, 4, 16\) must have 4 dim", q=zeros(5, 4, 16)),
    dense("k 5-D", ValueError, r"k\.shape=.* must have 4 dim", k=zeros(1, 2, 7, 2, 16)),
    dense("v 2-D", ValueError, r"v\.shape=.* must have 4 dim", v=zeros(7, 16)),
    dense(
        "batches",
        ValueError,
        r"k\.shape=.*batch 3.*has 2",
        k=zeros(3, 7, 2, 16),
        v=zeros(3, 7, 2, 16),
    ),
    dense(
        "batch of one",
        ValueError,
        r"k\.shape=.*batch 1",
        k=zeros(1, 7, 2, 16),
        v=zeros(1, 7, 2, 16),
    ),
    dense("k and v lengths", ValueError, r"v\.shape=.* must equal k\.shape", v=zeros(2, 8, 2, 16)),
    dense("k and v heads", ValueError, r"v\.shape=.* must equal k\.shape", v=zeros(2, 7, 1, 16)),
    dense(
        "k's head dim",
        ValueError,
        r"k\.shape=.*head dim 8.*has 16",
        k=zeros(2, 7, 2, 8),
        v=zeros(2, 7, 2, 16),
    ),
    dense(
        "v's head dim",
        NotImplementedError,
        r"v\.shape=.*head dim 8, q's is 16",
        v=zeros(2, 7, 2, 8),
    ),
    dense(
        "heads", ValueError, "q has 4 heads and k has 3", k=zeros(2, 7, 3, 16), v=zeros(2, 7, 3, 16)
    ),
    dense(
        "fewer query heads",
        ValueError,
        "q has 2 heads and k has 4",
        q=zeros(2, 5, 2, 16),
        k=zeros(2, 7, 4, 16),
        v=zeros(2, 7, 4, 16),
    ),
    dense(
        "no kv heads",
        ValueError,
        "q has 4 heads and k has 0",
        k=zeros(2, 7, 0, 16),
        v=zeros(2, 7, 0, 16),
    ),
    dense(
        "head dim 0",
        ValueError,
        r"q\.shape=.*head dim 0",
        q=zeros(2, 5, 4, 0),
        k=zeros(2, 7, 2, 0),
        v=zeros(2, 7, 2, 0),
    ),
    dense(
        "head dim 264",
        NotImplementedError,
        r"q\.shape=.*head dim 264.*256",
        q=zeros(2, 5, 4, 264),
        k=zeros(2, 7, 2, 264),
        v=zeros(2, 7, 2, 264),
    ),
    dense(
        "layout swapped",
        ValueError,
        "q has 5 heads and k has 7: .*; with layout='bshd' in place of 'bhsd' they are 4 and 2",
        layout="bhsd",
    ),
    dense(
        "layout forgotten",
        ValueError,
        "q has 5 heads and k has 7: .*; with layout='bhsd' in place of 'bshd' they are 4 and 2",
        q=zeros(2, 4, 5, 16),
        k=zeros(2, 2, 7, 16),
        v=zeros(2, 2, 7, 16),
    ),
    dense(
        "heads of no layout",
        ValueError,
        "q has 3 heads and k has 2: .* must be a multiple of that of kv heads$",
        q=zeros(2, 5, 3, 16),
    ),
    # Dtypes
    dense(
        "int8",
        TypeError,
        r"q\.dtype=int8 must be bfloat16 or float16",
        q=zeros(2, 5, 4, 16, dtype="i1"),
    ),
    dense("bool k", TypeError, r"k\.dtype=bool must be", k=zeros(2, 7, 2, 16, dtype="?")),
    dense("complex v", TypeError, r"v\.dtype=complex64 must be", v=zeros(2, 7, 2, 16, dtype="c8")),
    dense(
        "mixed",
        TypeError,
        r"k\.dtype=float16 must equal q\.dtype=bfloat16",
        k=zeros(2, 7, 2, 16, dtype="f2"),
    ),
    dense(
        "mixed v",
        TypeError,
        r"v\.dtype=float32 must equal q\.dtype=bfloat16",
        v=zeros(2, 7, 2, 16, dtype="f4"),
    ),
    *(
        dense(
            f"{dtype} alone",
            TypeError,
            rf"q\.dtype={dtype} needs compute_dtype='bfloat16' or 'float16'",
            q=zeros(2, 5, 4, 16, dtype=dtype),
            k=zeros(2, 7, 2, 16, dtype=dtype),
            v=zeros(2, 7, 2, 16, dtype=dtype),
        )
        for dtype in ("float32", "float64")
    ),
    dense(
        "other compute_dtype",
        ValueError,
        "compute_dtype=float16 must be None or q.dtype=bfloat16",
        compute_dtype="float16",
    ),
    dense("unknown compute_dtype", ValueError, "compute_dtype='fp8' must be", compute_dtype="fp8"),
    dense(
        "float32 compute_dtype",
        ValueError,
        "compute_dtype=.*float32.* must be",
        compute_dtype=np.float32,
    ),
    dense("compute_dtype a number", TypeError, "compute_dtype=16 must be", compute_dtype=16),
    # Scale
    dense("scale NaN", ValueError, "softmax_scale=nan must be finite", softmax_scale=float("nan")),
    dense(
        "scale inf", ValueError, "softmax_scale=-inf must be finite", softmax_scale=-float("inf")
    ),
    dense(
        "scale beyond float32",
        ValueError,
        r"softmax_scale=1e\+39 must be finite",
        softmax_scale=1e39,
    ),
    dense(
        "scale beyond float64",
        ValueError,
        "softmax_scale=10+ must be finite",
        softmax_scale=10**400,
    ),
    dense("scale text", TypeError, "softmax_scale='1' must be a real number", softmax_scale="1"),
    dense("scale complex", TypeError, r"softmax_scale=1j must be a real number", softmax_scale=1j),
    dense(
        "scale of one element",
        TypeError,
        r"softmax_scale=array\(\[1\.\]\) must be a real number or None, not ndarray",
        softmax_scale=np.ones(1),
    ),
    dense(
        "scale 0-d bool",
        TypeError,
        r"softmax_scale=.*True.* must be a real number",
        softmax_scale=np.array(True),
    ),
    dense(
        "scale an object that has a number",
        TypeError,
        "softmax_scale=.*Numberlike.* must be a real number or None, not Numberlike",
        softmax_scale=Numberlike(),
    ),
    dense(
        "scale a span of time",
        TypeError,
        "softmax_scale=.*timedelta64.* must be a real number",
        softmax_scale=np.timedelta64(1, "s"),
    ),
    dense(
        "scale too long to print",
        ValueError,
        r"softmax_scale=\(a number too long to print\) must be finite",
        softmax_scale=10**5000,
    ),
    dense(
        "window an object that has a number",
        TypeError,
        r"window_size=\(.*Numberlike.*, 0\) must be a pair",
        window_size=(Numberlike(), 0),
    ),
    dense(
        "alignment an array",
        ValueError,
        "causal_alignment=array.*top_left.* must be one of",
        causal_alignment=np.array("top_left"),
    ),
    dense("layout a list", ValueError, r"layout=\['bshd'\] must be one of", layout=["bshd"]),
    dense("scale True", TypeError, "softmax_scale=True must be a real number", softmax_scale=True),
    # Masks
    dense("causal text", TypeError, "causal='yes' must be True or False", causal="yes"),
    dense("causal 1", TypeError, "causal=1 must be True or False", causal=1),
    dense("window a number", TypeError, "window_size=128 must be a pair", window_size=128),
    dense(
        "window of three",
        ValueError,
        r"window_size=\(1, 2, 3\) must be a pair",
        window_size=(1, 2, 3),
    ),
    dense("window -2", ValueError, r"window_size=\(-2, 0\) must be a pair", window_size=(-2, 0)),
    dense(
        "offset 0.5", TypeError, "diagonal_offset=0.5 must be a whole number", diagonal_offset=0.5
    ),
    dense("offset True", TypeError, "diagonal_offset=True must be", diagonal_offset=True),
    dense(
        "offset far",
        ValueError,
        r"diagonal_offset=-536870913 must be",
        diagonal_offset=-(2**29) - 1,
    ),
    dense("window 0.5", TypeError, r"window_size=\(0.5, 0\) must be a pair", window_size=(0.5, 0)),
    dense(
        "window True", TypeError, r"window_size=\(True, 0\) must be a pair", window_size=(True, 0)
    ),
    dense(
        "alignment", ValueError, "causal_alignment='left' must be one of", causal_alignment="left"
    ),
    dense("layout", ValueError, "layout='sbhd' must be one of 'bshd', 'bhsd'", layout="sbhd"),
    dense("layout None", ValueError, "layout=None must be one of", layout=None),
    # Lengths
    dense(
        "kv_lens too long",
        ValueError,
        r"kv_lens\[1\]=8 must be from 0 to the 7 keys",
        kv_lens=np.array([7, 8], "i4"),
    ),
    dense(
        "kv_lens negative",
        ValueError,
        r"kv_lens\[0\]=-1 must be from 0",
        kv_lens=np.array([-1, 8], "i8"),
    ),
    dense("kv_lens list", ValueError, r"kv_lens\[1\]=9 must be from 0", kv_lens=[7, 9]),
    dense(
        "kv_lens count",
        ValueError,
        r"kv_lens\.shape=\(3,\) must be \(2,\)",
        kv_lens=np.array([1, 2, 3], "i4"),
    ),
    dense(
        "kv_lens 2-D",
        ValueError,
        r"kv_lens\.shape=\(2, 1\) must be",
        kv_lens=np.array([[1], [2]], "i4"),
    ),
    dense(
        "kv_lens floats",
        TypeError,
        r"kv_lens\.dtype=float32 must be int32 or int64",
        kv_lens=np.array([1, 2], "f4"),
    ),
    dense(
        "kv_lens list of floats",
        TypeError,
        r"kv_lens=\[1.0, 2.0\] must hold whole numbers",
        kv_lens=[1.0, 2.0],
    ),
    dense(
        "kv_lens list of lists of unequal length",
        TypeError,
        r"kv_lens=\[7, \[7\]\] must hold whole numbers",
        kv_lens=[7, [7]],
    ),
    dense(
        "kv_lens masked",
        TypeError,
        "kv_lens must be an array or a list of whole numbers, not MaskedArray",
        kv_lens=MASKED_LENGTHS,
    ),
    dense(
        "kv_lens list of bools",
        TypeError,
        r"kv_lens=\[True, 5\] must hold whole numbers",
        kv_lens=[True, 5],
    ),
    dense(
        "kv_lens list of NumPy's bools",
        TypeError,
        r"kv_lens=\[.*, 5\] must hold whole numbers",
        kv_lens=[np.True_, 5],
    ),
    dense(
        "kv_lens beyond 64 bits",
        ValueError,
        r"kv_lens=\[1180591620717411303424, 5\] must hold numbers below 2\*\*63",
        kv_lens=[2**70, 5],
    ),
    dense(
        "kv_lens beyond 63 bits",
        ValueError,
        r"kv_lens=\[.*, 5\] must hold numbers below 2\*\*63",
        kv_lens=[np.uint64(2**64 - 1), 5],
    ),
    dense("kv_lens a number", TypeError, "kv_lens must be an array or a list", kv_lens=5),
    # Flags
    dense("return_lse text", TypeError, "return_lse='yes' must be True or False", return_lse="yes"),
    dense("check None", TypeError, "check=None must be True or False", check=None),
    # Out
    dense(
        "out shape",
        ValueError,
        r"out\.shape=\(2, 5, 2, 16\) must equal q\.shape",
        out=zeros(2, 5, 2, 16),
    ),
    dense(
        "out of the other layout",
        ValueError,
        r"out\.shape=\(2, 4, 5, 16\) must equal q\.shape=.* in the order of the other layout",
        out=zeros(2, 4, 5, 16),
    ),
    dense(
        "out dtype",
        TypeError,
        r"out\.dtype=float64 must equal q\.dtype=bfloat16, or be float32",
        out=zeros(2, 5, 4, 16, dtype="f8"),
    ),
    aliasing("out is q", "out overlaps q", out_is_q),
    aliasing("out within k", "out overlaps k", out_shifted_into_k),
    aliasing("out within v", "out overlaps v", out_in_v_by_another_view),
    aliasing("out over kv_lens", "out overlaps kv_lens", out_over_kv_lens),
    aliasing("out over cu_seqlens_k", "out overlaps cu_seqlens_k", out_over_cu_seqlens_k),
    aliasing(
        "out broadcast", r"out\.strides=\(.*\) with out\.shape=.* at one address", out_broadcast
    ),
    # Packed sequences
    packed("4-D q", ValueError, r"q\.shape=\(1, 9, 4, 16\) must have 3 dim", q=zeros(1, 9, 4, 16)),
    packed("cu_seqlens_q start", ValueError, r"cu_seqlens_q\[0\]=1 must be 0", cu_q=(1, 3, 9)),
    packed("cu_seqlens_k start", ValueError, r"cu_seqlens_k\[0\]=2 must be 0", cu_k=(2, 3, 9)),
    packed(
        "cu_seqlens_q falls",
        ValueError,
        r"cu_seqlens_q\[2\]=2 must not be below cu_seqlens_q\[1\]=3",
        cu_q=(0, 3, 2),
    ),
    packed(
        "cu_seqlens_q end",
        ValueError,
        r"cu_seqlens_q\[-1\]=10 must be at most the 9 tokens of q",
        cu_q=(0, 3, 10),
    ),
    packed(
        "cu_seqlens_k end",
        ValueError,
        r"cu_seqlens_k\[-1\]=11 must be at most the 10 tokens of k",
        cu_k=(0, 3, 11),
    ),
    packed(
        "cu_seqlens_q falls by more than 32 bits hold",
        ValueError,
        r"cu_seqlens_q\[2\]=-2 must not be below cu_seqlens_q\[1\]=2147483647",
        cu_q=(0, 2**31 - 1, -2, 9),
        cu_k=(0, 1, 2, 3),
    ),
    packed("list falls", ValueError, r"cu_seqlens_k\[1\]=-4 must not be below", cu_k=[0, -4, 9]),
    packed("counts differ", ValueError, r"cu_seqlens_k\.shape=\(2,\) must be \(3,\)", cu_k=(0, 4)),
    packed(
        "empty cu_seqlens", ValueError, r"cu_seqlens_q\.shape=\(0,\) must be \(N \+ 1,\)", cu_q=[]
    ),
    packed(
        "cu_seqlens 2-D", ValueError, r"cu_seqlens_q\.shape=\(1, 3\) must be", cu_q=((0, 3, 9),)
    ),
    packed(
        "cu_seqlens floats",
        TypeError,
        "cu_seqlens_q=.* must hold whole numbers",
        cu_q=[0.0, 3.0, 9.0],
    ),
    packed("cu_seqlens None", TypeError, "cu_seqlens_k must be an array or a list", cu_k=None),
    packed(
        "max_seqlen_q small",
        ValueError,
        "max_seqlen_q=5 is too small: .* cu_seqlens_q has 6",
        max_seqlen_q=5,
    ),
    packed(
        "max_seqlen_k small",
        ValueError,
        "max_seqlen_k=3 is too small: .* cu_seqlens_k has 4",
        max_seqlen_k=3,
    ),
    packed(
        "max_seqlen_q negative", ValueError, "max_seqlen_q=-1 must not be negative", max_seqlen_q=-1
    ),
    packed("max_seqlen_q True", TypeError, "max_seqlen_q=True must be a whole", max_seqlen_q=True),
    packed(
        "max_seqlen_k 1.5", TypeError, "max_seqlen_k=1.5 must be a whole number", max_seqlen_k=1.5
    ),
]

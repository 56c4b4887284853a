"""The one description of a call: the public signatures have its fields and its defaults."""

import inspect

import pytest

import rocke_cupy
from rocke_cupy import reference
from rocke_cupy.rules.options import Dense, Options, Varlen

ARRAYS = {"q", "k", "v", "out", "kv_lens", "cu_seqlens_q", "cu_seqlens_k"}
FUNCTIONS = {
    "attention": (rocke_cupy.attention, {"max_seqlen_q", "max_seqlen_k"}),
    "reference.attention": (reference.attention, {"max_seqlen_q", "max_seqlen_k"}),
    "attention_varlen": (rocke_cupy.attention_varlen, {"layout"}),
    "reference.attention_varlen": (reference.attention_varlen, {"layout"}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_signature_has_all_options_with_their_defaults(name):
    function, left_out = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    options = {n: p.default for n, p in parameters.items() if n not in ARRAYS}
    expected = {n: d for n, d in Options._field_defaults.items() if n not in left_out}
    assert options == expected
    assert all(parameters[n].kind is inspect.Parameter.KEYWORD_ONLY for n in options)


@pytest.mark.parametrize("function", ["attention", "attention_varlen"])
def test_the_oracle_has_the_signature_of_what_it_judges(function):
    ours, oracle = (
        inspect.signature(getattr(m, function)).parameters for m in (rocke_cupy, reference)
    )
    assert [(p.name, p.kind, p.default) for p in ours.values()] == [
        (p.name, p.kind, p.default) for p in oracle.values()
    ]


@pytest.mark.parametrize(
    ("typed", "name"), [(Dense, "attention"), (Varlen, "attention_varlen")], ids=str
)
def test_the_overloads_have_the_arguments_of_the_signature(typed, name):
    parameters = inspect.signature(getattr(rocke_cupy, name)).parameters.values()
    optional = {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert typed.__annotations__.keys() == optional - {"return_lse"}

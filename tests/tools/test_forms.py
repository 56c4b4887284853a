"""``bench --forms``: the other forms of the loop beside the one that `select` takes."""

import numpy as np
import pytest

from rocke_cupy.tools import bench, forms
from rocke_cupy.tools.peers import Shape

SMALL, WIDE = Shape("short", 1, 2, 1, 64, 64, True), Shape("short", 1, 1, 1, 64, 192, False)


def test_each_form_changes_what_its_name_says():
    chosen = forms.spec_of(SMALL)
    assert not chosen.packed_softmax
    assert not chosen.raised_priority
    found = forms.forms_of(SMALL)
    assert [(s.packed_softmax, s.raised_priority) for s in found.values()] == [
        (True, False), (False, True), (True, True),
    ]  # fmt: skip
    assert all(s.replace(packed_softmax=False, raised_priority=False) == chosen
               for s in found.values())  # fmt: skip
    assert forms.forms_of(WIDE) == {}, "that kernel has one form"


def times(**of_form):
    return [
        (name, shape, time * factor)
        for shape, factor in ((SMALL, 1), (Shape("mha", 1, 2, 1, 128, 64, True), 3))
        for name, time in {"rocke_cupy": 100.0, **of_form}.items()
    ]


@pytest.mark.parametrize(
    ("of_form", "sentence"),
    [
        (dict(packed=95.0, priority=101.0),
         "D 64: of the time of what `select` takes, packed 0.950, priority 1.010 (2 shapes): "
         "`select` should take packed."),
        (dict(packed=120.0, priority=99.5),
         "D 64: of the time of what `select` takes, packed 1.200, priority 0.995 (2 shapes): "
         "`select` is right."),
    ],
)  # fmt: skip
def test_the_verdict_names_the_fastest(of_form, sentence):
    assert forms.verdict(times(**of_form), "rocke_cupy") == [sentence]


def test_a_head_dim_with_one_form_has_no_verdict():
    assert forms.verdict([("rocke_cupy", WIDE, 5.0)], "rocke_cupy") == []


@pytest.mark.network
def test_without_a_gpu_they_are_modelled(monkeypatch, capsys):
    monkeypatch.setattr(bench, "SHAPES", [SMALL])
    rows = bench.run(
        ["short"], [], samples=3, rocm="7.0", modelled=True, csv_file=None, plot_file=None,
        forms=True,
    )  # fmt: skip
    assert [r.implementation for r in rows] == ["rocke_cupy", *forms.FORMS]
    assert "D 64: of the time of what `select` takes, packed " in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.parametrize("form", forms.FORMS)
def test_a_form_gives_the_same_attention(form, cp):
    ours = bench.Ours(SMALL, 1).result()
    other = forms.OtherForm(SMALL, 1, forms.forms_of(SMALL)[form]).result()
    np.testing.assert_allclose(other, ours, atol=0.02)

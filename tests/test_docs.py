"""Every Python snippet of the README and of docs/ runs and checks its answer; the pages build."""

import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Snippet:
    page: Path
    line: int
    text: str

    @property
    def needs_device(self):
        return "import cupy" in self.text

    def run(self):
        # Blank lines in front, so that a traceback names the line of the page.
        code = compile("\n" * self.line + self.text, str(self.page), "exec")
        exec(code, {"__name__": "snippet"})


def snippets_of(page, text):
    """Return the ```python blocks of a Markdown text."""
    return [
        Snippet(page, text[: match.start(1)].count("\n"), match.group(1))
        for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


SNIPPETS = [snippet for page in PAGES for snippet in snippets_of(page, page.read_text())]


@pytest.mark.parametrize(
    "snippet",
    [
        pytest.param(
            snippet,
            id=f"{snippet.page.name}:{snippet.line}",
            marks=[pytest.mark.gpu] if snippet.needs_device else [],
        )
        for snippet in SNIPPETS
    ],
)
def test_snippet_runs_and_checks_its_answer(snippet):
    assert re.search(r"^ *assert ", snippet.text, re.MULTILINE), "the snippet checks nothing"
    snippet.run()


def test_readme_has_snippets_for_the_device():
    assert any(s.needs_device for s in SNIPPETS if s.page.name == "README.md")


def test_a_wrong_snippet_fails_at_its_line():
    page = "Text.\n\n```python\nx = 1\nassert x == 2\n```\n\n```sh\nexit 1\n```\n"
    (snippet,) = snippets_of(Path("page.md"), page)
    with pytest.raises(AssertionError) as failure:
        snippet.run()
    assert failure.traceback[-1].lineno + 1 == 5
    assert not snippet.needs_device


def test_no_python_snippet_is_missed():
    """A block that is indented, or whose fence is not closed, would not be run."""
    for page in PAGES:
        fences = len(re.findall(r"``` *\{?(?:python|py|pycon|code-block)\b", page.read_text()))
        assert fences == len([s for s in SNIPPETS if s.page == page]), page.name


@pytest.mark.skipif(importlib.util.find_spec("myst_parser") is None, reason="needs the docs extra")
def test_pages_build_without_a_warning(tmp_path):
    sphinx = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*sphinx, PROJECT / "docs", tmp_path / "html", "-d", tmp_path / "cache"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr

"""Sphinx settings: `sphinx-build -W docs docs/_build/html`."""

import importlib.metadata

project = "rocke_cupy"
copyright = "the rocke_cupy developers"  # noqa: A001 (the name that Sphinx asks for)
version = release = importlib.metadata.version("rocke_cupy")

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}

autosummary_generate = False
autodoc_typehints = "none"  # numpydoc's Parameters section has the types, in words
numpydoc_show_class_members = False
myst_heading_anchors = 3

html_theme = "alabaster"
html_theme_options = {"description": "Flash attention on CuPy arrays for the AMD MI355X"}

"""How Sphinx builds the site (`make docs`).

The source folder is the repository's root, so that a link from one page to another works here as on GitHub.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

project = "reward-ablation"
copyright = "the reward-ablation maintainers, MIT licence"
root_doc = "docs/index"
include_patterns = ["docs/**", "config/README.md", "results/README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
# The landing page includes README.md. Folders named here are not searched for pages.
exclude_patterns = [".*", "benchmarks", "docs/_build", "envs", "logs", "profiles", "results/[!R]*", "tests", "workflow"]

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
myst_heading_anchors = 6  # the anchors of headings are GitHub's
default_role = "literal"  # single backticks in docstrings
nitpicky = True  # a link to nothing is a warning, and `make docs` takes warnings as errors
nitpick_ignore_regex = [("py:.*", ".*")]  # names of types in signatures are not linked

add_module_names = False
autodoc_typehints = "none"  # the parameters' types stand in the docstrings
autodoc_preserve_defaults = True
numpydoc_show_class_members = False

html_theme = "furo"
html_title = project
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_extra_path = ["site/root"]  # index.html, which leads to the landing page
html_copy_source = False
html_show_sphinx = False
pygments_style = "tango"
pygments_dark_style = "monokai"

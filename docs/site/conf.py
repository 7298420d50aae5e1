"""Sphinx for the pages that `make_site.py` puts together; nothing is fetched, and a warning is an error."""

import sys
from pathlib import Path

import finite_calculus

_HERE = Path(__file__).parent
sys.path.insert(0, str(_HERE))

project = "finite_calculus"
author = "The finite_calculus developers"
project_copyright = author
release = version = finite_calculus.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
highlight_language = "text"
pygments_dark_style = "a11y-dark"
smartquotes = False  # they would make -- of options a dash
python_maximum_signature_line_length = 88
autodoc_typehints_format = "short"
python_display_short_literal_types = True
html_theme = "furo"
html_title = "finite_calculus"
html_static_path = [str(_HERE / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}


def setup(app):
    """Docstrings are plain text; see `docstrings.py`."""
    from docstrings import as_rst

    def plain(app, what, name, obj, options, lines):
        lines[:] = as_rst("\n".join(lines))

    app.connect("autodoc-process-docstring", plain)

"""Settings of the documentation site: `make docs` builds it into build/docs/html.

The pages are Markdown (MyST) that also reads well on a code host; the API reference comes from the
docstrings. Warnings are errors, so the build fails for a broken link, a page that is missing from
the navigation, and a public name without an entry in the API reference.
"""

import importlib
import inspect
import pathlib
import re

import albert_tf
from albert_tf.environment import quiet_import
from docutils import nodes
from sphinx.util import logging
from sphinx.util.inspect import signature, stringify_signature

ROOT = pathlib.Path(__file__).resolve().parent.parent

project = "albert_tf"
author = "the albert_tf authors"
copyright = "the albert_tf authors, Apache 2.0"
version = release = re.search(
    r'^version = "(.+)"',
    (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    re.MULTILINE,
).group(1)

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["images/*"]

# Links to headings use the anchors that code hosts generate, so that they work in both places.
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto"]

# Docstrings write code in single backquotes, as Markdown does.
default_role = "code"
# Blocks without a language are commands and their output.
highlight_language = "none"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"albert_tf {release}"
html_show_sphinx = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {"navigation_with_keys": True}


def _offer_files_of_the_repository(app, docname, source):
    """Make links to Markdown files outside of docs/, which are no pages of the site, downloads."""

    def download(match):
        path = (ROOT / "docs" / docname).parent / match[2]
        inside = path.resolve().is_relative_to(ROOT / "docs")
        return match[0] if inside else f"{{download}}`{match[1]} <{match[2]}>`"

    source[0] = re.sub(
        r"\[([^][`]+)\]\(((?:\.\./)+[^()#]+\.md)(?:#[^()]+)?\)", download, source[0]
    )


def _link_pictures(app, doctree):
    """Make pictures links to their files: Sphinx does it with those that have a width."""
    for image in doctree.findall(nodes.image):
        image["width"] = "100%"  # custom.css has another


def _show_examples_as_code(app, what, name, obj, options, lines):
    """Make indented blocks code: after `Example:`, and after any colon in a module's docstring."""
    shown = []
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        starts_code = what == "module" and line.endswith(":") and not after
        shown += (
            [f"{line}:", ""] if starts_code or line.strip() == "Example:" else [line]
        )
    lines[:] = shown


def _show_arguments(app, what, name, obj, options, shown, returned):
    """Take the arguments of a class from `__init__`: those of Keras hide them in `__new__`."""
    if what == "class" and inspect.isfunction(obj.__init__):
        return stringify_signature(signature(obj.__init__, bound_method=True)), returned
    return None


def _check_public_names(app, env):
    """Fail the build if a public name of the package is missing from the API reference."""
    documented = env.get_domain("py").objects
    for name in albert_tf.__all__:
        if f"albert_tf.{name}" not in documented:
            logging.getLogger(__name__).warning(
                "docs/reference/api.md lacks albert_tf.%s", name
            )


def setup(app):
    with quiet_import():  # autodoc would load it with all its start-up messages
        importlib.import_module("keras")
    app.connect("source-read", _offer_files_of_the_repository)
    app.connect("doctree-read", _link_pictures)
    app.connect(
        "autodoc-process-docstring", _show_examples_as_code, priority=400
    )  # then napoleon
    app.connect("autodoc-process-signature", _show_arguments)
    app.connect("env-check-consistency", _check_public_names)

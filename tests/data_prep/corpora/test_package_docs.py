"""Prose from docstrings and README files."""

from __future__ import annotations

import shutil
import textwrap

import pytest

from albert_tf.errors import InputError
from data_prep import extract_corpus
from data_prep.corpora import package_docs
from data_prep.corpora.base import ReaderOptions
from data_prep.corpora.prose import prose_paragraphs
from data_prep.extraction_options import ExtractionOptions
from tests.conftest import ROOT
from tests.data_prep.corpora.reading import read

SENTENCE = "This is a sentence of the text that should be kept."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A *fine* line with ``code`` and :class:`~a.b.Name` in it.",
         ["A fine line with code and Name in it."]),
        ("See the `manual <https://x.org>`_ and [this page](http://y.org) for all of it.",
         ["See the manual and this page for all of it."]),
        ("The file `__init__.py` is of the kind that ``*.pyc`` files are made from.",
         ["The file __init__.py is of the kind that *.pyc files are made from."]),
        (f"{SENTENCE}\n\n>>> f(1)\n2\n\n{SENTENCE}", [SENTENCE, SENTENCE]),
        (f"{SENTENCE}\n\n```python\nthis is not a part of the text\n```\n{SENTENCE}",
         [SENTENCE, SENTENCE]),
        (f"A heading of the text in words\n-------\n{SENTENCE}", [SENTENCE]),
        (f"# The heading of a text in Markdown\n{SENTENCE}", [SENTENCE]),
        (f".. code-block:: python\n\n   the code is in the block of the text\n\n{SENTENCE}",
         [SENTENCE]),
        (f".. note::\n\n   {SENTENCE}", [SENTENCE]),
        (f".. note:: {SENTENCE}", [SENTENCE]),
        (f".. deprecated:: 1.2\n   {SENTENCE}", [SENTENCE]),
        (f"As an example of the use::\n\n    a = the(code of it)\n\n{SENTENCE}",
         ["As an example of the use:", SENTENCE]),
        (f"Parameters\n----------\nx : array_like, shape (n, m)\n    {SENTENCE}", [SENTENCE]),
        (f"Args:\n  x: {SENTENCE}\n  y (int): {SENTENCE}", [SENTENCE, SENTENCE]),
        (f":param x: {SENTENCE}\n:returns:\n    {SENTENCE}", [SENTENCE, SENTENCE]),
        ("* It is the first item of a list.\n* It is the second item of a list.",
         ["It is the first item of a list.", "It is the second item of a list."]),
        ("This is a line that goes\non with the next of the lines.",
         ["This is a line that goes on with the next of the lines."]),
        ("| a | b |\n|---|---|\n| the first of the | second of the |", []),
        ("===== =====\nthis  is the head\n===== =====", []),
        ("x = f(a_b, c.d) + {1: [2]} if the_flag is None", []),
        ("Short text.", []),
        ("", []),
    ],
)  # fmt: skip
def test_prose_is_kept_and_markup_removed(text, expected):
    assert list(prose_paragraphs(text)) == expected


def test_docstrings_in_the_order_of_the_source():
    source = '''
    """Module."""
    import os
    if os:
        def f():
            """Function
            on two lines."""
            def inner():
                """Inner."""
    try:
        class A:
            """Class."""
            async def method(self):
                """Method."""
    except ImportError:
        class A:
            """Other class."""
    x = """not a docstring"""
    '''
    assert package_docs.docstrings(textwrap.dedent(source).encode()) == [
        "Module.",
        "Function\non two lines.",
        "Inner.",
        "Class.",
        "Method.",
        "Other class.",
    ]


@pytest.mark.integration
def test_documents_are_modules_and_readmes_without_repetition(tmp_path, monkeypatch):
    (tmp_path / "bad.py").write_text('def f(:\n    """This is not Python in the least."""')
    (tmp_path / "one.py").write_text(f'"""{SENTENCE}\n\nThis is only in the first file."""')
    (tmp_path / "two.py").write_text(f'"""{SENTENCE}\n\nThis is only in the second file."""')
    (tmp_path / "README.md").write_text("# Title\n\nThis is what the package is for.")
    names = ["bad.py", "one.py", "two.py", "README.md"]
    sources = [package_docs.PackageFile(str(tmp_path / name), name, "package") for name in names]
    monkeypatch.setattr(package_docs, "_find_files", lambda: sources)
    monkeypatch.setattr(package_docs, "_FILES_PER_UNIT", 1)
    documents, counts = read("package_docs", ())
    assert [(d.name, d.source, d.paragraphs) for d in documents] == [
        ("one.py", "package", [SENTENCE, "This is only in the first file."]),
        ("two.py", "package", [SENTENCE, "This is only in the second file."]),
        ("README.md", "package", ["This is what the package is for."]),
    ]
    assert counts.skipped == 1
    output = tmp_path / "corpus.txt"
    extract_corpus.run(ExtractionOptions(format="package_docs", output_file=str(output)))
    assert output.read_text().split("\n\n") == [
        f"{SENTENCE}\nThis is only in the first file.",
        "This is only in the second file.",
        "This is what the package is for.\n",
    ]


@pytest.fixture(scope="module")
def found():
    """Return the files of this interpreter and its packages, thousands."""
    return package_docs._find_files()


@pytest.mark.integration
def test_sources_of_this_interpreter(found):
    names = {source.name: source.package for source in found}
    assert len(names) == len(found) > 1000
    assert names["argparse.py"] == "argparse"
    assert names["numpy/linalg/__init__.py"] == "numpy"
    assert next(p for n, p in names.items() if n.startswith("scikit_learn-")) == "sklearn"
    assert not any(name.startswith("albert_tf") for name in names), "the project's own texts"
    # Copies inside other packages come after the originals.
    order = [source.name for source in found]
    vendored = [i for i, name in enumerate(order) if "/_vendor/" in name]
    assert min(vendored, default=len(order)) > order.index(
        "wheel/__init__.py" if "wheel/__init__.py" in names else "argparse.py"
    )


@pytest.fixture
def interpreter(tmp_path, monkeypatch):
    """Return folders of an interpreter with a standard library and two packages."""
    roots = {"purelib": tmp_path / "site", "platlib": tmp_path / "site", "stdlib": tmp_path / "lib"}
    monkeypatch.setattr("sysconfig.get_paths", lambda: {k: str(v) for k, v in roots.items()})
    write(roots["stdlib"] / "standard.py", "This module comes with the interpreter itself.")
    for name in ("first", "second"):
        write(roots["purelib"] / name / "__init__.py", f"This is the package of the name {name}.")
    return roots["purelib"]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'"""{SENTENCE}\n\n{text}\n"""\n')


def corpus_of(packages, tmp_path):
    """Return every file that extraction writes from the listed packages."""
    (tmp_path / "packages.txt").write_text(packages)
    out = tmp_path / "out"
    extract_corpus.run(
        ExtractionOptions(
            format="package_docs",
            package_list=str(tmp_path / "packages.txt"),
            output_file=str(out / "train.txt"),
            eval_output_file=str(out / "eval.txt"),
            eval_fraction=0.5,
        )
    )
    made = {path.name: path.read_text() for path in out.glob("*.t*")}
    shutil.rmtree(out)
    return made


@pytest.mark.integration
@pytest.mark.slow
def test_what_else_is_installed_does_not_change_the_listed_packages(interpreter, tmp_path):
    packages = "# What to read.\nfirst\nsecond  # and this\npython\n"
    alone = corpus_of(packages, tmp_path)
    text = alone["train.txt"] + alone["eval.txt"]
    assert text.count(SENTENCE) == 1
    for part in ("the interpreter itself", "the name first", "the name second"):
        assert part in text
    # It comes first, and what it repeats would count as its own.
    write(interpreter / "another" / "__init__.py", "This is the package of the name first.")
    assert corpus_of(packages, tmp_path) == alone
    options = ReaderOptions(package_list=str(tmp_path / "packages.txt"))
    (tmp_path / "packages.txt").write_text("first\n")
    ((only,),) = package_docs.units((), options)
    assert only.name == "first/__init__.py"


@pytest.mark.integration
def test_a_listed_package_that_is_not_installed_is_named(interpreter, tmp_path):
    with pytest.raises(InputError, match=r"`package_list`=.*: not installed: fourth, third$"):
        corpus_of("third\nfourth\nfirst\n", tmp_path)


@pytest.mark.integration
def test_the_packages_of_the_demo_are_installed_with_every_python(found):
    listed = package_docs.read_package_list(str(ROOT / "configs" / "demo" / "packages.txt"))
    assert {"python", "numpy", "tensorflow"} < listed
    # Nothing that only part of the environments of this project has.
    optional = {"transformers", "torch", "jax", "jaxlib", "tensorflow_text", "ai_edge_litert"}
    assert not listed & optional
    assert listed - {"python"} <= {source.package for source in found}

"""The documentation in the Python packages of this interpreter: real English that is always there.

Docstrings are read from the sources with `ast` (nothing is imported), README texts from the
packages' metadata and files. A paragraph that came before is left out (`unique_paragraphs` in the
table of formats), so what packages copy from one another, or from a shared template, is there once.
"""

from __future__ import annotations

import ast
import email.parser
import importlib.metadata
import inspect
import os
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora import Counts, Document, ReaderOptions
from data_prep.corpora.prose import prose_paragraphs

_README = re.compile(r"readme(\.(md|rst|txt))?", re.IGNORECASE)
# What a test says of itself is hardly text: "Test that f raises."
_TEST_FILE = re.compile(r"(test_.*|.*_test|conftest)\.py")
# This project itself: a change of its texts would change every model of its demo.
_OWN = {"albert_tf", "data_prep", "convert_checkpoint", "export_saved_model"}
_OWN |= {"run_pretraining", "run_classifier"}
_FILES_PER_UNIT = 64
_STANDARD_LIBRARY = "python"  # in a list of packages
# Copies of other packages come last, so that a text counts for the package it was written in.
_VENDORED = re.compile(r"/(_?vendor(ed)?|_distutils|externals|extern|third_party)/")


class Source(NamedTuple):
    """A file to read.

    Attributes:
        path: where it is.
        name: the name of its document, the same on every machine.
        package: which package it belongs to.
        is_standard: whether that is a module of the standard library.
    """

    path: str
    name: str
    package: str
    is_standard: bool = False


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[list[Source]]:
    """The files of the packages of the running interpreter, some at a time.

    Raises:
        InputError: a package in `options.package_list` is not installed.
    """
    sources = _find_sources()
    if options.package_list:
        sources = _listed(sources, options.package_list)
    for begin in range(0, len(sources), _FILES_PER_UNIT):
        yield sources[begin : begin + _FILES_PER_UNIT]


def documents(unit: list[Source], options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yields a document for each module with docstrings and each README.

    Args:
        unit: the files.
        options: unused.
        counts: unparsable files are counted in it.
    """
    for source in unit:
        found = _paragraphs(source.path)
        if found is None:
            counts.skipped += 1
        elif found:
            counts.characters += sum(map(len, found))
            yield Document(source.name, source.package, found)


def read_package_list(path: str) -> set[str]:
    """The names in a file, one per line; `#` begins a comment."""
    lines = (line.partition("#")[0].strip() for line in files.read_lines(path))
    return {line for line in lines if line}


def _listed(sources: list[Source], path: str) -> list[Source]:
    """The files of the packages in a list; what else is installed changes nothing."""
    wanted = read_package_list(path)
    missing = wanted - {source.package for source in sources} - {_STANDARD_LIBRARY}
    if missing:
        raise InputError(f"`package_list`={path}: not installed: {', '.join(sorted(missing))}")
    return [
        source
        for source in sources
        if source.package in wanted or (source.is_standard and _STANDARD_LIBRARY in wanted)
    ]


def _find_sources() -> list[Source]:
    """All files to read, in an order that is always the same."""
    paths = sysconfig.get_paths()
    packages = _packages_of_distributions()
    roots = {os.path.realpath(paths[key]) for key in ("purelib", "platlib", "stdlib")}
    standard = os.path.realpath(paths["stdlib"])
    found = []
    for root in roots:
        for folder, subfolders, names in os.walk(root):
            if folder == root:
                # Below the standard library, but not part of it.
                subfolders[:] = [s for s in subfolders if not s.endswith("-packages")]
            subfolders[:] = [s for s in subfolders if s not in ("test", "tests")]
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, root)
                if _TEST_FILE.fullmatch(name):
                    continue
                if name.endswith(".py") or _README.fullmatch(name):
                    package = relative.split(os.sep)[0].removesuffix(".py")
                    found.append(Source(path, relative, package, root == standard))
                elif name == "METADATA" and folder.endswith(".dist-info"):
                    distribution = _normalised(os.path.basename(folder).split("-")[0])
                    package = packages.get(distribution, distribution)
                    found.append(Source(path, relative, package))
    found = [source for source in found if source.package not in _OWN]
    return sorted(found, key=lambda source: (bool(_VENDORED.search(source.path)), source.name))


def _packages_of_distributions() -> dict[str, str]:
    """`scikit_learn` -> `sklearn`: a distribution's package, of its own name where it has one."""
    packages: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = _normalised(distribution.metadata["Name"] or "")
        # By its files: `packages_distributions` knows them only from Python 3.11 on.
        folders = {
            path.parts[0]
            for path in distribution.files or ()
            if path.suffix == ".py" and len(path.parts) > 1 and path.parts[0].isidentifier()
        }
        public = sorted(folder for folder in folders if not folder.startswith("_"))
        if public:
            same = [folder for folder in public if _normalised(folder) == name]
            packages[name] = (same or public)[0]
    return packages


def _normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "_", distribution).lower()


def _paragraphs(path: str) -> list[str] | None:
    """The prose of one file; None if it cannot be read or parsed."""
    try:
        with open(path, "rb") as file:
            content = file.read()
        if path.endswith(".py"):
            texts = docstrings(content)
        elif path.endswith("METADATA"):
            texts = [_description(content.decode())]
        else:
            texts = [content.decode()]
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    return [paragraph for text in texts for paragraph in prose_paragraphs(text)]


def docstrings(source: bytes) -> list[str]:
    """The docstrings of a module, its classes and its functions, in the order of the source.

    Raises:
        SyntaxError, ValueError: this Python cannot parse it.
    """
    if b'"""' not in source and b"'''" not in source:
        return []  # a docstring worth reading is longer than a line; parsing is what takes time
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "invalid escape sequence" is not ours to fix
        tree = ast.parse(source)
    return list(_docstrings_below(tree))


def _docstrings_below(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield inspect.cleandoc(text)
    # Only statements can hold definitions; walking the expressions too would take most of the time.
    for block in ("body", "handlers", "orelse", "finalbody"):
        for child in getattr(node, block, None) or ():
            if isinstance(child, (ast.stmt, ast.ExceptHandler)):
                yield from _docstrings_below(child)


def _description(metadata: str) -> str:
    """The long description of a distribution."""
    message = email.parser.Parser().parsestr(metadata)
    return message.get_payload() or message["Description"] or ""

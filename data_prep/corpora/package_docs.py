"""The documentation of the Python packages of this interpreter: English text without a download.

Docstrings are read from the source files with `ast` (nothing is imported), README texts from the
packages' metadata and files. Repeated paragraphs are left out (`unique_paragraphs` in the table of
formats), so text that packages copy from each other, or from a template, occurs once.
"""

from __future__ import annotations

import ast
import collections
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
from data_prep.corpora.base import Counts, Document, ReaderOptions
from data_prep.corpora.prose import prose_paragraphs

_README = re.compile(r"readme(\.(md|rst|txt))?", re.IGNORECASE)
# Docstrings of tests are hardly text: "Test that f raises."
_TEST_FILE = re.compile(r"(test_.*|.*_test|conftest)\.py")
# This project: otherwise, a change of its docstrings would change every model of its demo.
_OWN_PACKAGES = {"albert_tf", "data_prep"}
_FILES_PER_UNIT = 64
_STANDARD_LIBRARY = "python"  # its name in a list of packages
# Copies of other packages come last, so that a text is attributed to its original package.
_VENDORED = re.compile(r"/(_?vendor(ed)?|_distutils|externals|extern|third_party)/")


class PackageFile(NamedTuple):
    """A file to read.

    Attributes:
        path: its path.
        name: name of its document, the same on every machine.
        package: the package it belongs to.
        is_standard: whether that is a module of the standard library.
    """

    path: str
    name: str
    package: str
    is_standard: bool = False


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[list[PackageFile]]:
    """Yield the files of the packages of the running interpreter, in groups.

    Args:
        patterns: unused.
        options: `package_list` names the packages to read; all if None.

    Raises:
        InputError: If a listed package is not installed.
    """
    found = _find_files()
    if options.package_list:
        found = _listed(found, options.package_list)
    for begin in range(0, len(found), _FILES_PER_UNIT):
        yield found[begin : begin + _FILES_PER_UNIT]


def documents(
    unit: list[PackageFile], options: ReaderOptions, counts: Counts
) -> Iterator[Document]:
    """Yield a document for each module with docstrings and each README.

    Args:
        unit: the files.
        options: unused.
        counts: updated with what is read and with the files that cannot be parsed.
    """
    for file in unit:
        found = _paragraphs(file.path)
        if found is None:
            counts.skipped += 1
        elif found:
            counts.characters += sum(map(len, found))
            yield Document(file.name, file.package, found)


def read_package_list(path: str) -> set[str]:
    """Return the names in a file, one per line; `#` starts a comment."""
    lines = (line.partition("#")[0].strip() for line in files.read_lines(path))
    return {line for line in lines if line}


def _listed(found: list[PackageFile], path: str) -> list[PackageFile]:
    """Return the files of the packages in a list, whatever else is installed."""
    wanted = read_package_list(path)
    missing = wanted - {file.package for file in found} - {_STANDARD_LIBRARY}
    if missing:
        raise InputError(f"`package_list`={path}: not installed: {', '.join(sorted(missing))}")
    return [
        file
        for file in found
        if file.package in wanted or (file.is_standard and _STANDARD_LIBRARY in wanted)
    ]


def _find_files() -> list[PackageFile]:
    """Return all files to read, in a deterministic order."""
    paths = sysconfig.get_paths()
    packages = _packages_of_distributions()
    roots = {os.path.realpath(paths[key]) for key in ("purelib", "platlib", "stdlib")}
    standard = os.path.realpath(paths["stdlib"])
    found = []
    for root in roots:
        for folder, subfolders, names in os.walk(root):
            if folder == root:
                # site-packages is below the standard library, but not part of it.
                subfolders[:] = [s for s in subfolders if not s.endswith("-packages")]
            subfolders[:] = [s for s in subfolders if s not in ("test", "tests")]
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, root)
                if _TEST_FILE.fullmatch(name):
                    continue
                if name.endswith(".py") or _README.fullmatch(name):
                    package = relative.split(os.sep)[0].removesuffix(".py")
                    found.append(PackageFile(path, relative, package, root == standard))
                elif name == "METADATA" and folder.endswith(".dist-info"):
                    distribution = _normalized(os.path.basename(folder).split("-")[0])
                    package = packages.get(distribution, distribution)
                    found.append(PackageFile(path, relative, package))
    found = [file for file in found if file.package not in _OWN_PACKAGES]
    return sorted(found, key=lambda file: (bool(_VENDORED.search(file.path)), file.name))


def _packages_of_distributions() -> dict[str, str]:
    """Return the main package of each distribution: `scikit_learn` -> `sklearn`.

    It is the package of the same name if there is one, else the first public one.
    """
    packages = collections.defaultdict(list)
    for package, distributions in importlib.metadata.packages_distributions().items():
        if package.isidentifier() and not package.startswith("_"):
            for distribution in distributions:
                packages[_normalized(distribution)].append(package)
    return {
        name: min(found, key=lambda package: (_normalized(package) != name, package))
        for name, found in packages.items()
    }


def _normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "_", distribution).lower()


def _paragraphs(path: str) -> list[str] | None:
    """Return the prose of one file; None if it cannot be read or parsed."""
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
    """Return the docstrings of a module, its classes and its functions, in the order of the source.

    Raises:
        SyntaxError: If this Python cannot parse the source.
        ValueError: If likewise.
    """
    if b'"""' not in source and b"'''" not in source:
        return []  # docstrings of a single line in other quotes are not worth parsing the file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the source, not of this program
        tree = ast.parse(source)
    return list(_docstrings_below(tree))


def _docstrings_below(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        text = ast.get_docstring(node, clean=False)
        if text:
            yield inspect.cleandoc(text)
    # Only statements contain definitions; visiting expressions too would take most of the time.
    for block in ("body", "handlers", "orelse", "finalbody"):
        for child in getattr(node, block, None) or ():
            if isinstance(child, (ast.stmt, ast.ExceptHandler)):
                yield from _docstrings_below(child)


def _description(metadata: str) -> str:
    message = email.parser.Parser().parsestr(metadata)
    return str(message.get_payload() or message["Description"] or "")

"""Writes the docstrings of installed packages, a table for each: English text without a download.

python -m examples.demo.package_docs --package_list=configs/demo/packages.txt --output_dir=docs
"""

import ast
import contextlib
import dataclasses
import importlib.util
import json
import pathlib
import re
import sysconfig
import warnings
from collections.abc import Iterator

from albert_tf.errors import InputError
from albert_tf.files import make_folder, read_lines, write_text
from albert_tf.options import command, option

_LEFT_OUT = re.compile(
    r"/(tests?|_?vendor(ed)?|_distutils|externals?|third_party|[\w.]*-packages)/"
    r"|/(test_\w*|\w*_test|conftest)\.py$"
)
_MARKUP = re.compile(r":[\w:+-]+:`~?([^`<]+)[^`]*`|`+([^`]*)`+_*|\*{1,2}(\w[^*]*\w)\*{1,2}")
# "- an item", ":param x:", "name (type): what it is"
_ENTRY = r"(?:[-*+•]|:\w[^:\n]*:|[`*]{0,2}[\w.*]+[`*]{0,2} ?(?:\([^)\n]*\))? ?(?::|--))\s"
# At blank lines, before entries, and after lines with indented ones below.
_BREAK = re.compile(rf"\n\s*\n|\n(?=\s*{_ENTRY})|\n(?=\S.*\n\s)")
_FUNCTION_WORD = re.compile(
    r"\b(an?|the|of|to|in|is|are|be|by|for|with|from|that|this|it|as|on|or|and|not|if)\b"
)


@dataclasses.dataclass(frozen=True)
class PackageDocsOptions:
    package_list: str = option(help="Names of packages, one per line; python: standard library.")
    output_dir: str = option(help="Folder for PACKAGE.jsonl.")


def paragraphs(source: bytes) -> Iterator[str]:
    """Yield what could be read aloud in the docstrings of a module, in the order of the source."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        for block in _BREAK.split(ast.get_docstring(node) or ""):
            plain = _MARKUP.sub(lambda match: "".join(filter(None, match.groups())), block)
            text = " ".join(re.sub(rf"^\s*{_ENTRY}", "", plain).split())
            is_text = sum(map(str.isalpha, text)) > 0.75 * len(text.replace(" ", ""))
            is_code = text.startswith((">>>", "..", "|", "#", "$"))
            if is_text and not is_code and text.count(" ") > 3 and _FUNCTION_WORD.search(text):
                yield text


def run(options: PackageDocsOptions) -> None:
    make_folder(options.output_dir, "output_dir")
    names = [line.partition("#")[0].strip() for line in read_lines(options.package_list)]
    for name in filter(None, names):
        if name == "python":
            roots = [sysconfig.get_path("stdlib")]
        elif spec := importlib.util.find_spec(name):
            roots = spec.submodule_search_locations or [spec.origin]
        else:
            raise InputError(f"`package_list`={options.package_list}: {name} is not installed")
        rows = []
        for root in map(pathlib.Path, roots):
            for path in sorted(root.rglob("*.py") if root.is_dir() else [root]):
                if _LEFT_OUT.search(f"/{path.relative_to(root.parent)}"):
                    continue
                with warnings.catch_warnings(action="ignore"), contextlib.suppress(SyntaxError):
                    text = "\n".join(paragraphs(path.read_bytes()))
                    rows += [json.dumps({"text": text}) + "\n"] if text else []
        write_text(f"{options.output_dir}/{name}.jsonl", "".join(rows))


cli = command(PackageDocsOptions, run)

if __name__ == "__main__":
    cli()

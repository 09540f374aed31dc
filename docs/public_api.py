"""Writes docs/reference/public-api.md: every public name, its signature and its purpose.

    python -m docs.public_api

The groups are those of the table in `albert_tf/__init__.py`.
"""

import inspect
import pathlib
import re
import textwrap
from collections.abc import Iterator

import albert_tf

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "public-api.md"
# Of prose, and of code, as in all pages.
WIDTH, CODE_WIDTH = 100, 88

HEADER = """\
# Public API

Everything that `import albert_tf` offers, on one page. `python -m docs.public_api` writes this page
from the docstrings. The [API reference](api.md) has the arguments, shapes and errors, and an
example for each name. In the examples, `np` is NumPy, and `albert_tf` and `keras` are imported.
"""


def groups() -> dict[str, list[str]]:
    """Return the public names by the comment that precedes them in the table."""
    source = (ROOT / "albert_tf" / "__init__.py").read_text("utf-8")
    table = source[source.index("_PUBLIC = {") : source.index("\n}\n")]
    found: dict[str, list[str]] = {}
    title = "Configuration and errors"
    for comment, name in re.findall(r'^    (?:# (.+)|"(\w+)":)', table, re.MULTILINE):
        title = comment or title
        if name:
            found.setdefault(title, []).append(name)
    return found


def purpose(documented: object) -> str:
    """Return the first sentence of a docstring."""
    paragraph = (inspect.getdoc(documented) or "").split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0]


class _Shown:
    """A default as it is written in code."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def signature(name: str, function: object, bound: bool) -> str:
    """Return a call with the names and defaults of all arguments, without types."""
    found = inspect.signature(function)
    parameters = []
    for parameter in [*found.parameters.values()][bound:]:
        if parameter.default is not parameter.empty:
            text = getattr(parameter.default, "__name__", repr(parameter.default))
            text = "..." if "<" in text else text.replace("'", '"')
            parameter = parameter.replace(default=_Shown(text))
        parameters.append(parameter.replace(annotation=parameter.empty))
    return name + str(
        found.replace(parameters=parameters, return_annotation=found.empty)
    )


def wrapped(call: str) -> str:
    """Return a call on as many lines as it needs."""
    if len(call) <= CODE_WIDTH:
        return call
    name, _, arguments = call.removesuffix(")").partition("(")
    lines = [arguments]
    if len(arguments) > CODE_WIDTH - 4:
        lines = [
            f"{argument}," for argument in re.split(r", (?=[\w*]+[=,]|\*)", arguments)
        ]
    return "\n    ".join([f"{name}(", *lines]) + "\n)"


def methods(cls: type) -> Iterator[tuple[str, object, bool]]:
    """Yield the public methods that the page lists: none of public bases or libraries."""
    public = [getattr(albert_tf, name) for name in albert_tf.__all__]
    bases = [base for base in cls.__mro__ if base.__module__.startswith("albert_tf.")]
    own = [base for base in bases if base is cls or base not in public]
    if any(base.__module__.startswith("keras.") for base in cls.__mro__):
        own = [cls]  # what its bases add is for engines, and overrides Keras
    listed_elsewhere = [base for base in cls.__mro__ if base not in own]
    seen: set[str] = set()
    for base in own:
        for name, value in vars(base).items():
            function = (
                value.__func__
                if isinstance(value, classmethod | staticmethod)
                else value
            )
            hidden = name.startswith("_") and name != "__call__"
            if hidden or name in seen or not inspect.isfunction(function):
                continue
            seen.add(name)
            if not any(name in vars(other) for other in listed_elsewhere):
                yield name, function, not isinstance(value, staticmethod)


def entry(name: str) -> str:
    """Return what the page says about a public name."""
    value = getattr(albert_tf, name)
    is_class = inspect.isclass(value)
    rows = [*methods(value)] if is_class else []
    # Classes of Keras hide their arguments in `__new__`.
    function = value.__init__ if is_class else value
    is_method = is_class and inspect.isfunction(function)
    call = f"albert_tf.{name}({'message' if is_class and issubclass(value, Exception) else ''})"
    if is_method or not is_class:
        call = signature(f"albert_tf.{name}", function, is_method)
    # Users create these by name.
    for factory in [row for row in rows if row[0] in ("from_preset", "load")]:
        rows.remove(factory)
        call = signature(f"albert_tf.{name}.{factory[0]}", *factory[1:])
    lines = [f"### {name}", "", textwrap.fill(purpose(value), WIDTH)]
    lines += ["", "```python", wrapped(call), "```"]
    if rows:
        lines.append("")
        for method, function, bound in rows:
            call = signature(
                "" if method == "__call__" else f".{method}", function, bound
            )
            text = f"- `{call}`: {purpose(function)}".rstrip(": ")
            lines += textwrap.wrap(
                text, WIDTH, subsequent_indent="  ", break_on_hyphens=False
            )
    return "\n".join(lines)


def page() -> str:
    """Return the text of the page."""
    parts = [HEADER]
    for title, names in groups().items():
        parts += [f"## {title}\n", *(f"{entry(name)}\n" for name in names)]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(albert_tf.__all__)} public names")

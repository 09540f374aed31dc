"""Rows of Excel workbooks, .xlsx and .xls."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import exists, open_file

logger = logging.getLogger(__name__)


def sheet_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """The rows of the first sheet, with their numbers as in Excel, all of the same width.

    Numbers look as they would be typed: 3 for 3.0.

    Raises:
        InputError: the file is missing, not a workbook, or has a password; or cells are merged,
            which leaves rows without the values that they seem to contain.
    """
    if not exists(path):
        raise InputError(f"{path}: no such file")
    with open_file(path, "rb") as file:
        content = file.read()
    if not content:
        raise InputError(f"{path}: empty; it must contain a workbook")
    sheet, others = _first_sheet(path, content)
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or []:
        cells = f"{_cell(top, left)}:{_cell(bottom, right)}"
        raise InputError(
            f"{path}: the cells {cells} of sheet {sheet.name!r} are merged; unmerge them, so that "
            "every row has its own cells"
        )
    if others:
        logger.info("%s: reads sheet %r, not %s", path, sheet.name, ", ".join(map(repr, others)))
    rows = sheet.to_python(skip_empty_area=False)
    return enumerate(([_text(value) for value in row] for row in rows), start=1)


def _first_sheet(path: str, content: bytes):
    import python_calamine  # only needed for such files

    try:
        book = python_calamine.load_workbook(io.BytesIO(content))
        if not book.sheet_names:
            raise InputError(f"{path}: has no sheet")
        first, *others = book.sheet_names
        return book.get_sheet_by_name(first), others
    except python_calamine.PasswordError:
        raise InputError(f"{path}: has a password; save it without one") from None
    except python_calamine.CalamineError as error:
        raise InputError(f"{path}: not an Excel workbook ({error})") from None


def _cell(row: int, column: int) -> str:
    """(0, 0) -> "A1"."""
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(ord("A") + letter) + letters
    return f"{letters}{row + 1}"


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)

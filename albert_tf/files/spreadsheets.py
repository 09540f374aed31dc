"""Rows of Excel workbooks, .xlsx and .xls.

The library that parses them may take any amount of memory for a damaged workbook, and then ends its
process. So this module is also a program, which reads a workbook from standard input, within limits
of memory and time, and prints each row as a line of JSON.
"""

import contextlib
import io
import json
import logging
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files.reading import exists, read_bytes

logger = logging.getLogger(__name__)

_MEMORY_BYTES = 2 << 30
_CPU_SECONDS = 60


def sheet_rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of the first sheet, with their numbers as in Excel, all of the same width.

    Numbers look as they would be typed: 3 for 3.0.

    Raises:
        InputError: If the file is missing, not a workbook, too large, or has a password; or cells
            are merged, which leaves rows without the values that they seem to contain.
    """
    if not exists(path):
        raise InputError(f"{path}: no such file")
    content = read_bytes(path)
    if not content:
        raise InputError(f"{path}: empty; it must contain a workbook")
    words = [sys.executable, "-m", __name__]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(content)
            number = 0
            for line in process.stdout:
                row = json.loads(line)
                if isinstance(row, list):
                    number += 1
                    yield number, row
                elif "error" in row:
                    raise InputError(f"{path}: {row['error']}")
                else:
                    logger.info("%s: %s", path, row["note"])
            failed = process.wait()
        finally:
            process.kill()
    if failed:
        raise InputError(
            f"{path}: damaged, or its first sheet takes more than {_MEMORY_BYTES >> 30} GiB of "
            f"memory or {_CPU_SECONDS} s; save it as .csv"
        )


def _printed(content: bytes) -> Iterator[Any]:
    """Yield what is printed: rows, {"note": ...} or {"error": ...}."""
    import python_calamine  # only needed for such files

    try:
        book = python_calamine.load_workbook(io.BytesIO(content))
        if not book.sheet_names:
            yield {"error": "has no sheet"}
            return
        first, *others = book.sheet_names
        sheet = book.get_sheet_by_name(first)
    except python_calamine.PasswordError:
        yield {"error": "has a password; save it without one"}
        return
    except python_calamine.CalamineError as error:
        yield {"error": f"not an Excel workbook ({error})"}
        return
    for (top, left), (bottom, right) in sheet.merged_cell_ranges or []:
        cells = f"{_cell(top, left)}:{_cell(bottom, right)}"
        problem = f"the cells {cells} of sheet {sheet.name!r} are merged; unmerge them, so that "
        yield {"error": f"{problem}every row has its own cells"}
        return
    if others:
        yield {"note": f"reads sheet {sheet.name!r}, not {', '.join(map(repr, others))}"}
    for row in sheet.to_python(skip_empty_area=False):
        yield [_text(value) for value in row]


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


def main() -> None:
    """Print the rows of the workbook in standard input."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    for line in _printed(sys.stdin.buffer.read()):
        print(json.dumps(line))


if __name__ == "__main__":
    main()

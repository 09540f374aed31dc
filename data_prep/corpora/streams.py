"""Local or remote files, possibly compressed, as streams of bytes that pyarrow can read."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import IO

from albert_tf import files

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}


def split_ending(path: str) -> tuple[str, str]:
    """`a/b.jsonl.gz` -> `.jsonl`, `.gz`; the second is "" for a file that is not compressed."""
    rest, ending = os.path.splitext(path)
    if ending in COMPRESSIONS:
        return os.path.splitext(rest)[1], ending
    return ending, ""


@contextlib.contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Opens a file, decompressing it if its ending is that of a compression."""
    import pyarrow

    with contextlib.ExitStack() as stack:
        file = stack.enter_context(contextlib.closing(files.open_file(path, "rb")))
        _, compression = split_ending(path)
        if compression:
            native = pyarrow.CompressedInputStream(file, COMPRESSIONS[compression])
            file = stack.enter_context(io.BufferedReader(native))
        yield file

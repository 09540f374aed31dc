"""Files that only grow, with checksums of what they contained at any point."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from albert_tf import files

_CHUNK_BYTES = 1 << 20

# The size in bytes and the SHA-256 of each file.
FilesState = Sequence[tuple[int, str]]


class AppendedFiles:
    """Unfinished files of a corpus.

    Args:
        partial: their paths while they are unfinished.
        final: their paths after that.
        statistics: names of what is counted.

    Attributes:
        partial: as given.
        written: the counts, by name.
    """

    def __init__(self, partial: Sequence[str], final: Sequence[str], statistics: Iterable[str]):
        self.partial, self._final = partial, final
        self._files: list[IO[bytes]] = []
        self._digests = [hashlib.sha256() for _ in partial]
        self.written = dict.fromkeys(statistics, 0)

    def open(self) -> None:
        """Open the files to append to them."""
        self._files = [open(path, "ab") for path in self.partial]  # noqa: SIM115

    def append(self, *contents: bytes) -> None:
        """Append to each file."""
        for file, digest, content in zip(self._files, self._digests, contents, strict=True):
            file.write(content)
            digest.update(content)

    def flushed(self) -> FilesState:
        """Flush the files; return the size in bytes and the checksum of each."""
        for file in self._files:
            file.flush()
        return [
            (file.tell(), digest.hexdigest())
            for file, digest in zip(self._files, self._digests, strict=True)
        ]

    def count_intact(self, states: Sequence[FilesState]) -> int:
        """Return how many of the first states are intact in the unfinished files."""
        intact = len(states)
        for number, path in enumerate(self.partial):
            digests = _digests_at(path, [state[number][0] for state in states[:intact]])
            intact = 0
            for state, digest in zip(states, digests, strict=False):
                if state[number][1] != digest.hexdigest():
                    break
                intact += 1
        return intact

    def is_complete(self, state: FilesState) -> bool:
        """Return whether the files, here or under their final names, are in the last state."""
        for partial, path, (size, checksum) in zip(self.partial, self._final, state, strict=True):
            place = partial if os.path.exists(partial) else path
            if not files.exists(place) or (files.size(place), files.sha256_of(place)) != (
                size,
                checksum,
            ):
                return False
        return True

    def truncate(self, state: FilesState, written: dict[str, int]) -> None:
        """Restore an earlier state of the unfinished files."""
        for number, (path, (size, _)) in enumerate(zip(self.partial, state, strict=True)):
            os.truncate(path, size)
            (self._digests[number],) = _digests_at(path, [size])
        self.written = dict(written)

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):  # a full disk has been reported already
                file.close()
        self._files = []


def _digests_at(path: str, sizes: Iterable[int]) -> Iterator[Any]:
    """Yield the SHA-256 of the first bytes of a file, for ascending numbers of bytes it has."""
    digest = hashlib.sha256()
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        for size in sizes:
            while content := file.read(min(size - file.tell(), _CHUNK_BYTES)):
                digest.update(content)
            if file.tell() < size:
                return
            yield digest.copy()

"""A corpus that is being written: its files and a journal in a hidden folder, kept across a kill.

Each line of the journal records how many units are done, and the sizes and checksums of the files
at that point. A run that resumes truncates the files to the sizes of the last line up to which they
are as they were written, and continues, so the result is that of an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from albert_tf import files
from data_prep.hidden_folder import claim, hidden_folder, seal, unseal
from data_prep.output_documents import OutputDocument
from data_prep.work_folder import move

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
_STATISTICS = ("documents", "sentences", "words", "bytes")

# The size in bytes and the SHA-256 of a text and of the table of its documents.
FilesState = Sequence[tuple[int, str]]


class CorpusOutput:
    """A text file and the table of its documents.

    Args:
        path: final name of the text file.
        folder: folder of the unfinished files.
        number: index of the output.

    Attributes:
        path: as given.
        partial: the unfinished text and table.
        written: number of documents, sentences, words and bytes.
    """

    def __init__(self, path: str, folder: str, number: int):
        self.path = path
        self.partial = [os.path.join(folder, f"{number}{end}") for end in (".txt", ".tsv")]
        self._final = (path, sources_file(path))
        self._files: list[IO[bytes]] = []
        self._digests = [hashlib.sha256() for _ in self.partial]
        self.written = dict.fromkeys(_STATISTICS, 0)

    def open(self) -> None:
        """Opens the files to append to them."""
        self._files = [open(path, "ab") for path in self.partial]  # noqa: SIM115

    def write(self, document: OutputDocument) -> None:
        """Writes all copies of a document."""
        text = document.text.encode("utf-8", "replace")
        row = f"{document.source}\t{document.name}\n".encode("utf-8", "replace")
        counts = (1, document.sentences, document.words, len(text) + 1)
        for _ in range(document.copies):
            separator = b"\n" if self.written["documents"] else b""
            for file, digest, content in zip(
                self._files, self._digests, (separator + text, row), strict=True
            ):
                file.write(content)
                digest.update(content)
            for name, count in zip(_STATISTICS, counts, strict=True):
                self.written[name] += count

    def flushed(self) -> FilesState:
        """Flushes the files; returns the size in bytes and the checksum of each."""
        for file in self._files:
            file.flush()
        return [
            (file.tell(), digest.hexdigest())
            for file, digest in zip(self._files, self._digests, strict=True)
        ]

    def count_intact(self, states: Sequence[FilesState]) -> int:
        """How many of the first states the unfinished files still contain as they were written."""
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
        """Whether the files, here or under their final names, are in the last state."""
        for partial, path, (size, checksum) in zip(self.partial, self._final, state, strict=True):
            place = partial if os.path.exists(partial) else path
            if not files.exists(place) or (files.size(place), files.sha256_of(place)) != (
                size,
                checksum,
            ):
                return False
        return True

    def truncate(self, state: FilesState, written: dict[str, int]) -> None:
        """Restores an earlier state of the unfinished files."""
        for number, (path, (size, _)) in enumerate(zip(self.partial, state, strict=True)):
            os.truncate(path, size)
            (self._digests[number],) = _digests_at(path, [size])
        self.written = dict(written)

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):  # a full disk has been reported already
                file.close()
        self._files = []

    def publish(self) -> None:
        """Moves the files to their final names, unless that has been done."""
        for partial, path in zip(self.partial, self._final, strict=True):
            if os.path.exists(partial):
                move(partial, path)


def _digests_at(path: str, sizes: Iterable[int]) -> Iterator[Any]:
    """Yields the SHA-256 of the first bytes of a file, for ascending numbers of bytes it has."""
    digest = hashlib.sha256()
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        for size in sizes:
            while content := file.read(min(size - file.tell(), _CHUNK_BYTES)):
                digest.update(content)
            if file.tell() < size:
                return
            yield digest.copy()


def sources_file(path: str) -> str:
    """`corpus.txt` -> `corpus.sources.tsv`."""
    return os.path.splitext(path)[0] + ".sources.tsv"


class UnfinishedCorpus:
    """The hidden folder of an extraction, locked by this process.

    Args:
        paths: the text files to write.
        work_dir: the folder to contain the hidden folder, if not that of the first text file.
        fingerprint: identifies the run. The unfinished work of another run is removed.
        resumable: whether an interrupted run can resume.

    Raises:
        InputError: if another process is using the folder, or if it cannot be created.

    Attributes:
        folder: the hidden folder.
        outputs: the files in it.
        state: the last line of the journal; {} at the start.
    """

    def __init__(
        self, paths: Sequence[str], work_dir: str | None, fingerprint: str, resumable: bool
    ):
        self.folder = hidden_folder(paths[0], work_dir)
        self._journal_file = os.path.join(self.folder, "journal")
        self._journal: IO[str] | None = None
        self.outputs = [CorpusOutput(path, self.folder, n) for n, path in enumerate(paths)]
        self.state: dict[str, Any] = {}
        self._resumable = resumable

        self._lock, is_resumed = claim(self.folder, fingerprint, resumable)
        if is_resumed:
            self._resume()

    def _resume(self) -> None:
        """Restores the last state of the journal up to which the files are intact."""
        states: list[dict[str, Any]] = []
        ends: list[int] = []
        with contextlib.suppress(FileNotFoundError), open(self._journal_file, "rb") as journal:
            for line in journal:
                if state := unseal(line):
                    states.append(state)
                    ends.append(journal.tell())
        if states and states[-1].get("done"):
            state = states.pop()
            if all(map(CorpusOutput.is_complete, self.outputs, state["files"])):
                self.state = state
                for output, written in zip(self.outputs, state["written"], strict=True):
                    output.written = written
                logger.info("resuming the unfinished run in %s", self.folder)
                return
        count = len(states)
        for number, output in enumerate(self.outputs):
            count = output.count_intact([state["files"][number] for state in states[:count]])
        if count < len(states):
            logger.warning(
                "%s: damaged since it was written; resuming from before that", self.folder
            )
        if not count:
            for path in (self._journal_file, *(p for o in self.outputs for p in o.partial)):
                files.remove(path)
            return
        self.state = states[count - 1]
        logger.info("resuming the unfinished run in %s", self.folder)
        os.truncate(self._journal_file, ends[count - 1])
        for output, of_files, written in zip(
            self.outputs, self.state["files"], self.state["written"], strict=True
        ):
            output.truncate(of_files, written)

    def open(self) -> None:
        """Opens the files to append to them."""
        for output in self.outputs:
            output.open()
        self._journal = open(self._journal_file, "a", encoding="utf-8")  # noqa: SIM115

    def write(self, document: OutputDocument) -> None:
        """Writes a document to the output it belongs to."""
        self.outputs[document.held_out].write(document)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Adds to an error, such as a full disk, where it occurred and how to continue."""
        try:
            yield
        except OSError as error:
            hint = "; finished work is kept there: rerun the same command to resume"
            raise OSError(
                f"cannot write in {self.folder}: {error.strerror}{hint * self._resumable}"
            ) from None

    def save(self, state: dict[str, Any]) -> None:
        """Records in the journal that everything written so far is complete.

        Args:
            state: the state of the run, in values that JSON can represent.
        """
        assert self._journal is not None, "the files are not open"
        self.state = state | {
            "files": [output.flushed() for output in self.outputs],
            "written": [output.written for output in self.outputs],
        }
        self._journal.write(seal(self.state) + "\n")
        self._journal.flush()

    def close(self) -> None:
        """Closes the files."""
        for output in self.outputs:
            output.close()
        if self._journal:
            with contextlib.suppress(OSError):  # a full disk has been reported already
                self._journal.close()

    def give_up(self) -> None:
        """Closes the files, and removes them if the run cannot resume."""
        self.close()
        self._unlock()
        if not self._resumable:
            self.remove()

    def remove(self) -> None:
        """Removes the folder with its content, and releases the lock."""
        files.remove(self.folder)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

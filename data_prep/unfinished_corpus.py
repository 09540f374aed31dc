"""A corpus that is being written: its files and a journal in a hidden folder, kept across a kill.

Each line of the journal records how many units are done, and the sizes of the files at that point.
A run that resumes truncates the files to these sizes and continues, so the result is that of an
uninterrupted run.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import IO, Any

from albert_tf import files
from data_prep.output_documents import OutputDocument
from data_prep.work_folder import hidden_folder, move

logger = logging.getLogger(__name__)

_STATISTICS = ("documents", "sentences", "words", "bytes")


class CorpusOutput:
    """A text file and the table of its documents.

    Args:
        path: final name of the text file.
        folder: folder of the unfinished files.
        number: index of the output.

    Attributes:
        path: as given.
        written: number of documents, sentences, words and bytes.
    """

    def __init__(self, path: str, folder: str, number: int):
        self.path = path
        self._partial = [os.path.join(folder, f"{number}{end}") for end in (".txt", ".tsv")]
        self._files: list[IO[bytes]] = []
        self.written = dict.fromkeys(_STATISTICS, 0)

    def open(self) -> None:
        """Opens the files to append to them."""
        self._files = [open(path, "ab") for path in self._partial]  # noqa: SIM115

    def write(self, document: OutputDocument) -> None:
        """Writes all copies of a document."""
        text = document.text.encode("utf-8", "replace")
        row = f"{document.source}\t{document.name}\n".encode("utf-8", "replace")
        counts = (1, document.sentences, document.words, len(text) + 1)
        for _ in range(document.copies):
            self._files[0].write(b"\n" + text if self.written["documents"] else text)
            self._files[1].write(row)
            for name, count in zip(_STATISTICS, counts, strict=True):
                self.written[name] += count

    def flushed_sizes(self) -> list[int]:
        """Flushes the files and returns their sizes in bytes."""
        for file in self._files:
            file.flush()
        return [file.tell() for file in self._files]

    def has(self, sizes: list[int]) -> bool:
        """Whether the unfinished files have at least these sizes."""
        return all(
            os.path.exists(path) and os.path.getsize(path) >= size
            for path, size in zip(self._partial, sizes, strict=True)
        )

    def truncate(self, sizes: list[int], written: dict[str, int]) -> None:
        """Restores an earlier state of the unfinished files."""
        for path, size in zip(self._partial, sizes, strict=True):
            os.truncate(path, size)
        self.written = dict(written)

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):  # a full disk has been reported already
                file.close()
        self._files = []

    def publish(self) -> None:
        """Moves the files to their final names, unless that has been done."""
        for partial, path in zip(self._partial, (self.path, sources_file(self.path)), strict=True):
            if os.path.exists(partial):
                move(partial, path)


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

        files.make_folder(self.folder, "work_dir" if work_dir else "output_file")
        # The operating system releases the lock however the process ends.
        self._lock: int | None = files.lock_folder(self.folder, "output_file")
        fingerprint_file = os.path.join(self.folder, "fingerprint")
        if resumable and os.path.exists(fingerprint_file):
            if files.read_text(fingerprint_file) == fingerprint:
                self._resume()
            else:
                logger.info(
                    "starting from scratch: the unfinished run in %s has other flags, input or "
                    "versions",
                    self.folder,
                )
        if not self.state:
            for name in os.listdir(self.folder):
                files.remove(os.path.join(self.folder, name))
            if resumable:
                files.write_text(fingerprint_file, fingerprint)

    def _resume(self) -> None:
        """Restores the last state of the journal that the files can be truncated to."""
        end = 0
        with contextlib.suppress(FileNotFoundError), open(self._journal_file, "rb") as journal:
            position = 0
            for line in journal:
                position += len(line)
                with contextlib.suppress(ValueError):
                    state = json.loads(line) if line.endswith(b"\n") else {}
                    sizes = state.get("sizes", [])
                    done = state.get("done", False)
                    if sizes and (done or all(map(CorpusOutput.has, self.outputs, sizes))):
                        self.state, end = state, position
        if not self.state:
            return
        logger.info("resuming the unfinished run in %s", self.folder)
        os.truncate(self._journal_file, end)
        for output, sizes, written in zip(
            self.outputs, self.state["sizes"], self.state["written"], strict=True
        ):
            if self.state.get("done"):
                output.written = written
            else:
                output.truncate(sizes, written)

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
            "sizes": [output.flushed_sizes() for output in self.outputs],
            "written": [output.written for output in self.outputs],
        }
        self._journal.write(json.dumps(self.state) + "\n")
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

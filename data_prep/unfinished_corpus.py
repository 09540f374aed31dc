"""A corpus that is being written: files and a journal in a hidden folder, which survive a kill.

Each line of the journal records how many units are done, and the sizes and checksums of the files
at that point. A run that resumes truncates the files to the sizes of the last line up to which they
are as they were written, and continues, so the result is that of an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from albert_tf import files
from data_prep.appended_files import AppendedFiles
from data_prep.hidden_folder import claim, hidden_folder, seal, unseal
from data_prep.output_documents import KEY_BYTES, OutputDocument
from data_prep.work_folder import move

if TYPE_CHECKING:
    from data_prep.document_store import DocumentStore

logger = logging.getLogger(__name__)

_STATISTICS = ("documents", "sentences", "words", "bytes")


class CorpusOutput(AppendedFiles):
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
        partial = [os.path.join(folder, f"{number}{end}") for end in (".txt", ".tsv")]
        super().__init__(partial, (path, sources_file(path)), _STATISTICS)

    def write(self, document: OutputDocument) -> None:
        """Write all copies of a document."""
        text = document.text.encode("utf-8", "replace")
        row = f"{document.source}\t{document.name}\n".encode("utf-8", "replace")
        counts = (1, document.sentences, document.words, len(text) + 1)
        for _ in range(document.copies):
            separator = b"\n" if self.written["documents"] else b""
            self.append(separator + text, row)
            for name, count in zip(_STATISTICS, counts, strict=True):
                self.written[name] += count

    def publish(self) -> None:
        """Move the files to their final names, unless that has been done."""
        for partial, path in zip(self.partial, self._final, strict=True):
            if os.path.exists(partial):
                move(partial, path)


def sources_file(path: str) -> str:
    """`corpus.txt` -> `corpus.sources.tsv`, `corpus.de` -> `corpus.de.sources.tsv`."""
    return path.removesuffix(".txt") + ".sources.tsv"


class SeenParagraphs(AppendedFiles):
    """The keys of the paragraphs so far: in memory, and in a file for a run that resumes.

    Args:
        folder: folder of the file.
    """

    def __init__(self, folder: str):
        paths = [os.path.join(folder, "paragraphs")]
        super().__init__(paths, paths, ())
        self._keys: set[bytes] = set()

    def open(self) -> None:
        super().open()
        with open(self.partial[0], "rb") as file:
            self._keys = set(iter(lambda: file.read(KEY_BYTES), b""))

    def add(self, key: bytes) -> bool:
        """Return whether a key is new, and keep it."""
        if is_new := key not in self._keys:
            self._keys.add(key)
            self.append(key)
        return is_new


class UnfinishedCorpus:
    """The hidden folder of an extraction, locked by this process.

    Args:
        paths: the text files to write.
        work_dir: the folder to contain the hidden folder, if not that of the first text file.
        fingerprint: identifies the run. The unfinished work of another run is removed.
        resumable: whether an interrupted run can resume.
        has_store: whether documents are stored before they are written.
        unique_paragraphs: whether paragraphs that occurred before are left out.

    Raises:
        InputError: If another process is using the folder, or if it cannot be created.

    Attributes:
        folder: the hidden folder.
        outputs: the files in it.
        store: the stored documents, if any are.
        seen: the paragraphs so far, if they are to be unique.
        state: the last line of the journal; {} at the start.
        is_resumable: as `resumable`.
    """

    def __init__(
        self,
        paths: Sequence[str],
        work_dir: str | None,
        fingerprint: str,
        resumable: bool,
        has_store: bool = False,
        unique_paragraphs: bool = False,
    ):
        self.folder = hidden_folder(paths[0], work_dir)
        self._journal_file = os.path.join(self.folder, "journal")
        self._journal: IO[str] | None = None
        self.outputs = [CorpusOutput(path, self.folder, n) for n, path in enumerate(paths)]
        self._appended: list[AppendedFiles] = [*self.outputs]
        self.store: DocumentStore | None = None
        if has_store:
            from data_prep.document_store import DocumentStore  # loads numba

            self.store = DocumentStore(self.folder)
            self._appended.append(self.store)
        self.seen = SeenParagraphs(self.folder) if unique_paragraphs else None
        self._appended += [self.seen] if self.seen else []
        self.state: dict[str, Any] = {}
        self.is_resumable = resumable
        self._lock: int | None

        self._lock, is_resumed = claim(self.folder, fingerprint, resumable)
        if is_resumed:
            self._resume()

    def _resume(self) -> None:
        """Restore the last state of the journal up to which the files are intact."""
        states: list[dict[str, Any]] = []
        ends: list[int] = []
        with contextlib.suppress(FileNotFoundError), open(self._journal_file, "rb") as journal:
            for line in journal:
                if state := unseal(line):
                    states.append(state)
                    ends.append(journal.tell())
        if states and states[-1].get("done"):
            state = states.pop()
            if all(map(AppendedFiles.is_complete, self._appended, state["files"])):
                self.state = state
                for appended, written in zip(self._appended, state["written"], strict=True):
                    appended.written = written
                logger.info("resuming the unfinished run in %s", self.folder)
                return
        count = len(states)
        for number, appended in enumerate(self._appended):
            count = appended.count_intact([state["files"][number] for state in states[:count]])
        if count < len(states):
            logger.warning(
                "%s: damaged since it was written; resuming from before that", self.folder
            )
        if not count:
            for path in (self._journal_file, *(p for a in self._appended for p in a.partial)):
                files.remove(path)
            return
        self.state = states[count - 1]
        logger.info("resuming the unfinished run in %s", self.folder)
        os.truncate(self._journal_file, ends[count - 1])
        for appended, of_files, written in zip(
            self._appended, self.state["files"], self.state["written"], strict=True
        ):
            appended.truncate(of_files, written)

    def open(self) -> None:
        """Open the files to append to them."""
        for appended in self._appended:
            appended.open()
        self._journal = open(self._journal_file, "a", encoding="utf-8")  # noqa: SIM115

    def write(self, document: OutputDocument) -> None:
        """Write a document to the output it belongs to."""
        self.outputs[document.held_out].write(document)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Add to an error, such as a full disk, where it occurred and how to continue."""
        try:
            yield
        except OSError as error:
            hint = "; finished work is kept there: rerun the same command to resume"
            raise OSError(
                f"cannot write in {self.folder}: {error.strerror}{hint * self.is_resumable}"
            ) from None

    def save(self, state: dict[str, Any]) -> None:
        """Record in the journal that everything written so far is complete.

        Args:
            state: the state of the run, in values that JSON can represent.
        """
        assert self._journal is not None, "the files are not open"
        self.state = state | {
            "files": [appended.flushed() for appended in self._appended],
            "written": [appended.written for appended in self._appended],
        }
        self._journal.write(seal(self.state) + "\n")
        self._journal.flush()

    def close(self) -> None:
        """Close the files."""
        for appended in self._appended:
            appended.close()
        if self._journal:
            with contextlib.suppress(OSError):  # a full disk has been reported already
                self._journal.close()

    def release(self, is_kept: bool = True) -> None:
        """Close the files, and remove them unless they are kept for a later run."""
        self.close()
        self._unlock() if is_kept else self.remove()

    def remove(self) -> None:
        """Remove the folder with its content, and release the lock."""
        files.remove(self.folder)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

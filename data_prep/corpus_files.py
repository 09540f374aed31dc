"""The files of a corpus that is being written: they grow in a work folder, and survive a kill.

Each line of a journal records the state of the run, and the sizes and checksums of the files then.
A run that resumes cuts the files to the sizes of the last line up to which they are as they were
written, and continues, so the result is that of an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import numpy as np

from albert_tf.progress import ThroughputLine
from data_prep.output_documents import KEY_BYTES, OutputDocument
from data_prep.work_folder import WorkFolder, move, seal, unseal

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 20
_JOURNAL = "journal.json"
_DOCUMENTS, _SIGNATURES = _STORE = ("documents", "signatures")
_KEYS = "paragraphs"
_STATISTICS = ("documents", "sentences", "words", "bytes")


class CorpusFiles:
    """Text files and the tables of their documents; documents that may be near duplicates.

    A `with` block opens the files, to append to them, and closes them.

    Args:
        work: the folder to write in.
        paths: final names of the text files.
        has_store: whether documents are stored until all are known.
        unique_paragraphs: whether the keys of paragraphs are kept, also for a run that resumes.

    Attributes:
        paths: as given.
        state: of the run, at the last line of the journal that holds; {} at the start.
        written: numbers of documents, sentences, words and bytes in each text file.
        stored: number of stored documents.
    """

    def __init__(
        self,
        work: WorkFolder,
        paths: Sequence[str],
        has_store: bool = False,
        unique_paragraphs: bool = False,
    ):
        self.paths, self._work = paths, work
        self._final: dict[str, str] = {}
        for number, path in enumerate(paths):
            self._final |= {f"{number}.txt": path, f"{number}.tsv": sources_file(path)}
        names = [*self._final, *_STORE * has_store, *[_KEYS] * unique_paragraphs]
        self._digests = {name: hashlib.sha256() for name in names}
        self._sizes = dict.fromkeys(names, 0)
        self._files: dict[str, IO[bytes]] = {}
        self._keys: set[bytes] = set()
        self.state = self._restore()
        self.written: list[dict[str, int]] = self.state.get("written") or [
            dict.fromkeys(_STATISTICS, 0) for _ in paths
        ]
        self.stored: int = self.state.get("stored", 0)

    def _restore(self) -> dict[str, Any]:
        """Cut the files to the last state up to which they are intact, and return it."""
        states: list[dict[str, Any]] = []
        ends = [0]
        with contextlib.suppress(FileNotFoundError), open(self._path(_JOURNAL), "rb") as journal:
            for line in journal:
                if state := unseal(line):
                    states.append(state)
                    ends.append(journal.tell())
        if states and states[-1].get("done") and self._is_complete():
            return states[-1]
        count, digests = len(states), {}
        for name in self._sizes:
            recorded = [state["files"][name] for state in states[:count]]
            found = _digests_at(self._path(name), [size for size, _ in recorded])
            pairs = zip(found, recorded, strict=False)
            intact = itertools.takewhile(lambda pair: pair[0].hexdigest() == pair[1][1], pairs)
            digests[name] = [digest for digest, _ in intact]
            count = len(digests[name])
        if count < len(states):
            rest = "resuming from before that" if count else "starting from scratch"
            logger.warning("%s: damaged since it was written; %s", self._work.path, rest)
        if count:
            self._digests = {name: digests[name][count - 1] for name in digests}
            self._sizes = {name: states[count - 1]["files"][name][0] for name in digests}
        for name, size in {**self._sizes, _JOURNAL: ends[count]}.items():
            with contextlib.suppress(FileNotFoundError):
                os.truncate(self._path(name), size)
        return states[count - 1] if count else {}

    def _is_complete(self) -> bool:
        """Return whether the finished files are intact, in the folder or under final names."""
        work, final = self._work, self._final.items()
        return all(work.is_intact(name) or work.is_intact(name, path) for name, path in final)

    def _path(self, name: str) -> str:
        return self._work.file(name)

    def _append(self, name: str, content: bytes) -> None:
        self._files[name].write(content)
        self._digests[name].update(content)
        self._sizes[name] += len(content)

    def write(self, document: OutputDocument) -> None:
        """Write all copies of a document."""
        number = int(document.held_out)
        text = document.text.encode("utf-8", "replace")
        row = f"{document.source}\t{document.name}\n".encode("utf-8", "replace")
        counts = (1, document.sentences, document.words, len(text) + 1)
        written = self.written[number]
        for _ in range(document.copies):
            self._append(f"{number}.txt", b"\n" * bool(written["documents"]) + text)
            self._append(f"{number}.tsv", row)
            for name, count in zip(_STATISTICS, counts, strict=True):
                written[name] += count

    def is_new(self, key: bytes) -> bool:
        """Return whether no paragraph so far has this key, and keep it."""
        if is_new := key not in self._keys:
            self._keys.add(key)
            self._append(_KEYS, key)
        return is_new

    def store(self, document: OutputDocument) -> None:
        """Store a document, and its signature, until all are known."""
        text = document.text.encode("utf-8", "replace")
        numbers = (len(text), document.sentences, document.words, document.copies)
        fields = [*map(str, (*numbers, int(document.held_out))), *document[:3]]
        self._append(_DOCUMENTS, "\t".join(fields).encode("utf-8", "replace") + b"\n" + text)
        self._append(_SIGNATURES, document.signature)
        self.stored += 1

    def without_near_duplicates(self, similarity: float) -> Iterator[OutputDocument]:
        """Yield the stored documents that are no near duplicates of an earlier one.

        Args:
            similarity: that of near duplicates, at least.
        """
        from data_prep.near_duplicates import PERMUTATIONS, find_near_duplicates  # loads numba

        if not self.stored:
            return
        self.flush()
        shape = (self.stored, PERMUTATIONS)
        rows = np.memmap(self._path(_SIGNATURES), "<u2", "r", shape=shape).view(np.ndarray)
        is_duplicate = find_near_duplicates(rows, similarity, self._work.path)
        with (
            open(self._path(_DOCUMENTS), "rb") as file,
            ThroughputLine("wrote", "documents", self.stored) as progress,
        ):
            for number, is_left_out in enumerate(is_duplicate):
                *numbers, name, key, source = file.readline().decode().rstrip("\n").split("\t")
                size, sentences, words, copies, held_out = map(int, numbers)
                text = file.read(size)
                if not is_left_out:
                    yield OutputDocument(
                        name, key, source, text.decode(), sentences, words, bool(held_out), copies
                    )
                progress.update(number)

    def save(self, state: dict[str, Any]) -> None:
        """Record that everything written so far is complete.

        Args:
            state: the state of the run, in values that JSON can represent.
        """
        self.flush()
        digests = self._digests.items()
        self.state = state | {
            "files": {name: (self._sizes[name], digest.hexdigest()) for name, digest in digests},
            "written": self.written,
            "stored": self.stored,
        }
        with open(self._path(_JOURNAL), "a") as journal:
            journal.write(seal(self.state) + "\n")

    def finish(self, state: dict[str, Any]) -> None:
        """Record that all files are complete."""
        for name in self._final:
            record = {"bytes": self._sizes[name], "sha256": self._digests[name].hexdigest()}
            self._work.finish(name, record)
        self.save(state | {"done": True})

    def publish(self) -> None:
        """Move the files to their final names, unless that has been done."""
        for name, path in self._final.items():
            if os.path.exists(self._path(name)):
                move(self._path(name), path)

    def flush(self) -> None:
        for file in self._files.values():
            file.flush()

    def __enter__(self) -> CorpusFiles:
        if not self.state.get("done"):
            for name in self._sizes:
                self._files[name] = open(self._path(name), "ab")
        if _KEYS in self._files:
            with open(self._path(_KEYS), "rb") as file:
                self._keys = set(iter(lambda: file.read(KEY_BYTES), b""))
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files.values():
            with contextlib.suppress(OSError):  # a full disk has been reported already
                file.close()


def sources_file(path: str) -> str:
    """`corpus.txt` -> `corpus.sources.tsv`, `corpus.de` -> `corpus.de.sources.tsv`."""
    return path.removesuffix(".txt") + ".sources.tsv"


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

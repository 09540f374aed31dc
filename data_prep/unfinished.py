"""A corpus that is being written: its files and a journal in a hidden folder, kept across a kill.

A line of the journal says how many units are done, and how long the files were then. Whoever starts
again cuts the files to that length and goes on, so the outcome is that of an uninterrupted run.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

from albert_tf import files
from data_prep.parts import Part

_STATISTICS = ("documents", "sentences", "words", "bytes")


class Output:
    """A text file and the table of its documents.

    Args:
        path: where the text file is to be when it is whole.
        folder: where it is until then.
        number: of the output.

    Attributes:
        written: documents, sentences, words and bytes.
    """

    def __init__(self, path: str, folder: str, number: int):
        self.path = path
        self._partial = [os.path.join(folder, f"{number}{end}") for end in (".txt", ".tsv")]
        self._files: list[IO[bytes]] = []
        self.written = dict.fromkeys(_STATISTICS, 0)

    def open(self) -> None:
        self._files = [open(path, "ab") for path in self._partial]  # noqa: SIM115

    def write(self, part: Part) -> None:
        text = part.text.encode("utf-8", "replace")
        for _ in range(part.copies):
            self._files[0].write(b"\n" + text if self.written["documents"] else text)
            self._files[1].write(f"{part.source}\t{part.name}\n".encode("utf-8", "replace"))
            for name, count in zip(
                _STATISTICS, (1, part.sentences, part.words, len(text) + 1), strict=True
            ):
                self.written[name] += count

    def sizes(self) -> list[int]:
        """The sizes of the files, with everything in them that was written."""
        for file in self._files:
            file.flush()
        return [file.tell() for file in self._files]

    def has(self, sizes: list[int]) -> bool:
        """Whether the files are at least so long."""
        return all(
            os.path.exists(path) and os.path.getsize(path) >= size
            for path, size in zip(self._partial, sizes, strict=True)
        )

    def cut(self, sizes: list[int], written: dict[str, int]) -> None:
        for path, size in zip(self._partial, sizes, strict=True):
            os.truncate(path, size)
        self.written = dict(written)

    def close(self) -> None:
        for file in self._files:
            with contextlib.suppress(OSError):  # a full disk was told of when it was met
                file.close()
        self._files = []

    def take_place(self) -> None:
        """Moves what is still in the folder to where it belongs."""
        from data_prep.workfolder import move

        for partial, path in zip(self._partial, (self.path, sources_file(self.path)), strict=True):
            if os.path.exists(partial):
                move(partial, path)


def sources_file(path: str) -> str:
    """`corpus.txt` -> `corpus.sources.tsv`."""
    return os.path.splitext(path)[0] + ".sources.tsv"


class Unfinished:
    """The folder of a run.

    Args:
        paths: the text files to write.
        work_dir: where the folder is to be, if not beside the first of them.
        fingerprint: of the run. A folder of another run is emptied.
        resumable: whether a run that was ended can go on at all.

    Raises:
        InputError: another process is at work in the folder, or it cannot be made.

    Attributes:
        folder: the folder.
        outputs: the files in it.
        state: the last line of the journal; {} at the start.
    """

    def __init__(
        self, paths: Sequence[str], work_dir: str | None, fingerprint: str, resumable: bool
    ):
        folder = work_dir or os.path.dirname(paths[0])
        if files.is_remote(folder):
            folder = tempfile.gettempdir()
        self.folder = os.path.join(folder, f".{os.path.basename(paths[0])}.work")
        self._journal_file = os.path.join(self.folder, "journal")
        self._journal: IO[str] | None = None
        self.outputs = [Output(path, self.folder, n) for n, path in enumerate(paths)]
        self.state: dict[str, Any] = {}
        self._resumable = resumable

        self._lock: int | None = None
        self._take(work_dir)
        mark = os.path.join(self.folder, "fingerprint")
        if resumable and os.path.exists(mark):
            if files.read_text(mark) == fingerprint:
                self._take_up()
            else:
                print(
                    "starting anew: flags, input or versions are not those of the unfinished run "
                    f"in {self.folder}",
                    file=sys.stderr,
                )
        if not self.state:
            for name in os.listdir(self.folder):
                files.remove(os.path.join(self.folder, name))
            if resumable:
                files.write_text(mark, fingerprint)

    def _take(self, work_dir: str | None) -> None:
        """Makes the folder and locks it; the end of the process, whatever ends it, unlocks it."""
        files.make_folder(self.folder, "work_dir" if work_dir else "output_file")
        self._lock = files.lock_folder(self.folder, "output_file")

    def _take_up(self) -> None:
        end = 0
        with contextlib.suppress(FileNotFoundError), open(self._journal_file, "rb") as journal:
            position = 0
            for line in journal:
                position += len(line)
                with contextlib.suppress(ValueError):
                    state = json.loads(line) if line.endswith(b"\n") else {}
                    sizes = state.get("sizes", [])
                    done = state.get("done", False)
                    if sizes and (done or all(map(Output.has, self.outputs, sizes))):
                        self.state, end = state, position
        if not self.state:
            return
        print(f"going on with the unfinished run in {self.folder}", file=sys.stderr)
        os.truncate(self._journal_file, end)
        for output, sizes, written in zip(
            self.outputs, self.state["sizes"], self.state["written"], strict=True
        ):
            if self.state.get("done"):
                output.written = written
            else:
                output.cut(sizes, written)

    def open(self) -> None:
        """Opens the files for what comes next."""
        for output in self.outputs:
            output.open()
        self._journal = open(self._journal_file, "a", encoding="utf-8")  # noqa: SIM115

    def write(self, part: Part) -> None:
        self.outputs[part.held_out].write(part)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Says of an error, such as a full disk, where it was met and what comes next."""
        try:
            yield
        except OSError as error:
            kept = "; what is done is kept there, and the same command goes on from it"
            raise OSError(
                f"cannot write in {self.folder}: {error.strerror}{kept * self._resumable}"
            ) from None

    def save(self, state: dict[str, Any]) -> None:
        """Says that everything written so far is whole, and what the run has come to."""
        self.state = state | {
            "sizes": [output.sizes() for output in self.outputs],
            "written": [output.written for output in self.outputs],
        }
        self._journal.write(json.dumps(self.state) + "\n")
        self._journal.flush()

    def close(self) -> None:
        for file in (*self.outputs, self._journal):
            if file:
                with contextlib.suppress(OSError):
                    file.close()

    def give_up(self) -> None:
        """Closes the files, and removes them if nobody can go on with them."""
        self.close()
        self.unlock()
        if not self._resumable:
            self.remove()

    def remove(self) -> None:
        files.remove(self.folder)
        self.unlock()

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

"""Which checkpoint of a folder is used, and which are kept: the same for every engine.

A checkpoint is called `OUTPUT_DIR/model.ckpt-STEP`, and a file lists the latest. An engine's class,
in `albert_tf.checkpoints.tensorflow` or `.orbax`, knows the names and the content on the disk. None
of them loads a framework before it reads or writes values.
"""

import abc
import dataclasses
import logging
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, files_in, normalized, read_text, remove, write_text
from albert_tf.weights import Tensor, Weights, adjacent_config

_logger = logging.getLogger(__name__)

NAME = "model.ckpt"
_CHECKPOINT = re.compile(rf"{re.escape(NAME)}-([0-9]{{1,18}})")


def step_of(path: str) -> int:
    """Return the step in the name of a checkpoint; -1 if it is not such a name."""
    found = _CHECKPOINT.fullmatch(os.path.basename(path))
    return int(found[1]) if found else -1


@dataclasses.dataclass(frozen=True)
class CheckpointList:
    """Content of the file that lists checkpoints.

    Attributes:
        latest: name of the checkpoint to resume from.
        saved: name -> time in seconds, oldest first, of checkpoints that newer ones replace.
        last_kept: time of the last checkpoint that stays for good.
    """

    latest: str
    saved: dict[str, float] = dataclasses.field(default_factory=dict)
    last_kept: float = 0.0


class CheckpointFolder(abc.ABC):
    """The checkpoints of one engine in a folder.

    Args:
        path: of the folder; for `find`, it may be that of a checkpoint.

    Attributes:
        engine: its name.
        weights_format: the format that it resumes from, for `--to` of convert_checkpoint.py.
        list_file: lists the checkpoints.
        endings: of a path, one of which exists for each checkpoint; the first is written last.
        readers: threads that may read values at a time.
    """

    engine: ClassVar[str]
    weights_format: ClassVar[str]
    list_file: ClassVar[str]
    endings: ClassVar[tuple[str, ...]]
    readers: ClassVar[int]

    def __init__(self, path: str):
        self.path = normalized(path)

    @abc.abstractmethod
    def _paths(self) -> list[str]:
        """Return what may be a checkpoint."""

    @abc.abstractmethod
    def unfinished(self, name: str = f"{NAME}-*") -> list[str]:
        """Return what is left of a save, or a removal, of `name` that was killed or has failed."""

    @abc.abstractmethod
    def remove(self, path: str) -> None:
        """Remove a checkpoint; one that is removed in part does not pass for a whole one."""

    @abc.abstractmethod
    def _copy(self, path: str, target: str) -> None:
        """Copy a complete checkpoint; its last file is copied last."""

    @abc.abstractmethod
    def _parse(self, text: str) -> CheckpointList | None:
        """Return the content of a list file; None or InputError if it is damaged."""

    @abc.abstractmethod
    def _text(self, listed: CheckpointList) -> str:
        """Return the content of a list file."""

    @abc.abstractmethod
    def damage_of(self, path: str) -> str | None:
        """Return why a checkpoint cannot be read, in one line; None if all of it can."""

    @abc.abstractmethod
    def _open(self, path: str) -> dict[str, Tensor]:
        """Return the values by name, unread: `step`, `params/PATH`, `optimizer/PATH` and others."""

    @abc.abstractmethod
    def start_saving(
        self, path: str, tree: Mapping[str, Any], is_chief: bool = True
    ) -> Callable[[], None]:
        """Copy a state to host memory; from then on, training may change it.

        Args:
            path: of the checkpoint.
            tree: `{"params": {variable path: value}, "optimizer": {variable path: value},
                "step": value}`, values being of the framework or of NumPy.
            is_chief: whether this worker, of those that save together, is the one that lists.

        Returns:
            What writes the copy, and returns when every byte is on the disk.

        Raises:
            OSError: If the checkpoint cannot be written; so does what is returned.
        """

    @classmethod
    def is_checkpoint(cls, path: str) -> bool:
        """Return whether `path` is a checkpoint, rather than a folder with some."""
        stem = path.rstrip("/").removesuffix(cls.endings[0])
        return any(exists(stem + ending) for ending in cls.endings)

    def all(self) -> list[str]:
        """Return the checkpoints in order of steps, damaged ones included; read none."""
        return sorted((path for path in self._paths() if step_of(path) >= 0), key=step_of)

    def read_list(self) -> CheckpointList | None:
        """Return the list of the checkpoints; None if it is missing or damaged."""
        try:
            return self._parse(read_text(self._at(self.list_file)))
        except InputError:
            return None

    def _write_list(self, listed: CheckpointList) -> None:
        write_text(self._at(self.list_file), self._text(listed))

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name)

    def list_only(self, path: str) -> None:
        """List a checkpoint as the latest and only one."""
        self._write_list(CheckpointList(os.path.basename(path)))

    def listed(self) -> str | None:
        """Return the checkpoint that is listed as the latest, unread; None if none is."""
        listed = self.read_list()
        path = self._at(listed.latest) if listed else ""
        return path if path and self.is_checkpoint(path) else None

    def find(self, argument: str = "path") -> str:
        """Return the checkpoint that the path is, or that is listed as the latest, or the only one.

        Errors call the path `argument`.

        Raises:
            InputError: If there is no checkpoint, or several of which none is listed as the latest.
        """
        if self.is_checkpoint(self.path):
            return self.path.removesuffix(self.endings[0])
        if listed := self.listed():
            return listed
        found = self._paths()
        if len(found) == 1:
            return found[0]
        example = self._at(f"{NAME}-1000")
        problem = f"no checkpoint; give a folder with one, or a name such as {example}"
        if found:
            problem = f"several checkpoints; name one, such as {found[0]}"
        problem = f"contains {problem}" if exists(self.path) else "no such file or folder"
        raise InputError(f"`{argument}`={self.path}: {problem}")

    def latest(self) -> str | None:
        """Return the first of `valid`; None if there is none."""
        return next(self.valid(), None)

    def valid(self) -> Iterator[str]:
        """Yield the valid checkpoints, from the one that is listed as the latest to the oldest.

        Damaged ones are skipped with a warning each.

        Raises:
            InputError: If there are some, all damaged.
        """
        before, damaged, found = self.read_list(), list[str](), False
        for path in self._newest_first(before):
            if self.is_valid(path, before):
                found = True
                yield path
            elif not found and self.read_list() != before:
                yield from self.valid()
                return
            else:
                damaged.append(os.path.basename(path))
        if not found and (damaged or exists(self._at(self.list_file))):
            names = ", ".join(damaged)
            names = names or f"none of those that the file `{self.list_file}` lists exists"
            raise InputError(
                f"`output_dir`={self.path}: no checkpoint in it can be read ({names}); name "
                f"another folder, or delete its checkpoints and the file `{self.list_file}` to "
                "start from scratch"
            )

    def is_valid(self, path: str, before: CheckpointList | None) -> bool:
        """Return whether every value of a checkpoint can be read; warn if it is damaged.

        If the list is no longer the one `before`, a run has replaced the checkpoint.
        """
        reason = self.damage_of(path)
        if reason is not None and self.read_list() == before:
            _logger.warning("%s is damaged and skipped: %s", path, reason)
        return reason is None

    def _newest_first(self, listed: CheckpointList | None) -> list[str]:
        """Return the checkpoints from the one that is listed as the latest, latest step first.

        Without the list, or with a broken one, from the highest step. So too if what it lists is
        missing, as after a power cut that undid a change of the list but not a removal.
        """
        paths = self.all()[::-1]
        latest = self._at(listed.latest) if listed else ""
        if latest in paths:
            paths = [path for path in paths if step_of(path) < step_of(latest)]
        unfinished = {path.removesuffix(self.endings[0]) for path in self.unfinished()}
        return [latest] * bool(latest) + [path for path in paths if path not in unfinished]

    def read(self, path: str) -> Weights:
        """Open the weights in a checkpoint.

        Raises:
            InputError: If it is damaged, of another project, or a package for it is missing.
        """
        values = self._open(path)
        kinds: dict[str, dict[str, Tensor]] = {"params": {}, "optimizer": {}}
        for name, tensor in values.items():
            kind, _, variable = name.partition("/")
            kinds.setdefault(kind, {})[variable] = tensor._replace(name=variable)
        if not kinds["params"]:
            raise InputError(f"{path}: has no weights under `params`; was it written by albert_tf?")
        return Weights(
            path=path,
            format="albert_tf",
            tensors=kinds["params"],
            skipped={n: each.shape for n, each in values.items() if not n.startswith("params/")},
            config=adjacent_config(path),
            step=int(values["step"].read()) if "step" in values else None,
            optimizer=kinds["optimizer"],
        )

    def write(
        self,
        step: int,
        values: Mapping[str, np.ndarray],
        optimizer: Mapping[str, np.ndarray] | None = None,
    ) -> str:
        """Write a checkpoint as training does, and list it as the only one; return its path.

        Values, and those of the optimizer's state if it is known, are by variable path.
        """
        path = self._at(f"{NAME}-{step}")
        tree = {"params": dict(values), "optimizer": dict(optimizer or {})}
        self.start_saving(path, {**tree, "step": np.asarray(step, np.int32)})()
        self.list_only(path)
        return path

    def add(
        self,
        path: str,
        keep: int,
        keep_every_n_hours: float,
        kept_steps: Collection[int] = (),
        replaced: Sequence[str] | None = None,
    ) -> None:
        """List a complete checkpoint as the latest, then remove those that it replaces.

        They stay listed until then: a run that is killed before removes them after its next save.

        Args:
            path: of the checkpoint; the others are as of `Checkpoints`.
            replaced: what it replaces, instead of the oldest beyond `keep`.
        """
        name, now = os.path.basename(path), time.time()
        before = self.read_list() or CheckpointList(name)
        others = {other: when for other, when in before.saved.items() if other != name}
        saved = {n: t for n, t in (*others.items(), (name, now)) if step_of(n) not in kept_steps}
        last_kept = before.last_kept or now
        obsolete = [os.path.basename(p) for p in replaced or () if step_of(p) not in kept_steps]
        for other in list(saved)[:-keep] if replaced is None else ():
            if keep_every_n_hours and saved[other] - last_kept >= 3600 * keep_every_n_hours:
                last_kept = saved.pop(other)
            else:
                obsolete.append(other)
        self._write_list(CheckpointList(name, saved, last_kept))
        for other in obsolete:
            self.remove(self._at(other))
        if obsolete:
            saved = {other: when for other, when in saved.items() if other not in obsolete}
            self._write_list(CheckpointList(name, saved, last_kept))

    def copy(self, path: str) -> str:
        """Copy a complete checkpoint into the folder, without listing it there; return its path."""
        target = self._at(os.path.basename(path))
        if self.listed() == target:
            # It may come from another run; a mixture of both must not stay listed.
            remove(self._at(self.list_file))
        self._copy(path, target)
        return target

    def keep_only(self, path: str) -> None:
        """List a checkpoint as the only one, then remove the others and what is left of others."""
        self.list_only(path)
        name = os.path.basename(path)
        for other in files_in(self.path, f"{NAME}-*"):
            if not f"{os.path.basename(other)}.".startswith(f"{name}."):
                # What is not a checkpoint is a file of one, or next to one.
                (self.remove if step_of(other) >= 0 else remove)(other)
        self.remove_unfinished()

    def remove_unfinished(self, name: str = f"{NAME}-*") -> None:
        """Remove what is left of a save or a removal; see `unfinished`."""
        for path in self.unfinished(name):
            remove(path)

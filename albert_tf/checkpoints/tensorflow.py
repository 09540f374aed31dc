"""Checkpoints of the TensorFlow engine: files with a common prefix, listed in `checkpoint`."""

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from albert_tf.checkpoints.folder import NAME, CheckpointFolder, CheckpointList, step_of
from albert_tf.errors import InputError, tensorflow_errors_as_os_errors, tensorflow_reason
from albert_tf.files import copy_file, exists, files_in, remove, sync, sync_names, without_magic
from albert_tf.weights import Tensor

Reader: TypeAlias = Any  # what tf.train.load_checkpoint returns; its class has no public name

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class TensorFlowFolder(CheckpointFolder):
    """Checkpoints that TensorFlow writes, the index last."""

    engine = "tensorflow"
    weights_format = "albert_tf"
    list_file = "checkpoint"
    endings = (".index",)
    readers = 1

    def __init__(self, path: str):
        # People name any file of a checkpoint; a folder may end in .meta as well.
        stem = re.sub(r"\.(data-\d{5}-of-\d{5}|meta)$", "", path)
        super().__init__(stem if stem != path and exists(f"{stem}.index") else path)

    def _paths(self) -> list[str]:
        # The original project's archives have other names.
        return [path.removesuffix(".index") for path in files_in(self.path, "*.index")]

    def unfinished(self, name: str = f"{NAME}-*") -> list[str]:
        # TensorFlow writes the index under its final name, so a kill can leave a part of it. Of a
        # later checkpoint this does not matter, because the list names those before it; the first
        # one is the only one of a folder that has no list yet.
        found, paths = files_in(self.path, f"{name}_temp"), self.all()
        if len(paths) == 1 and not exists(self._at(self.list_file)):
            try:
                open_checkpoint(paths[0])
            except InputError:
                found += _files_of(paths[0])
        return found

    def remove(self, path: str) -> None:
        for file in _files_of(path):
            remove(file)

    def _copy(self, path: str, target: str) -> None:
        for file in reversed(_files_of(path)):
            copy_file(file, target + os.path.basename(file).removeprefix(os.path.basename(path)))

    def _parse(self, text: str) -> CheckpointList | None:
        text_format, create_state = _list_format()
        try:
            state = text_format.Parse(text, create_state(), allow_unknown_field=True)
        except text_format.ParseError:
            return None
        # Only a run lists times; what was listed otherwise is never removed.
        names, times = state.all_model_checkpoint_paths, state.all_model_checkpoint_timestamps
        saved = {
            name: time
            for name, time in zip(names, times, strict=False)
            if step_of(name) >= 0 and "/" not in name
        }
        latest = state.model_checkpoint_path
        return CheckpointList(latest, saved, state.last_preserved_timestamp) if latest else None

    def _text(self, listed: CheckpointList) -> str:
        text_format, create_state = _list_format()
        state = create_state(
            model_checkpoint_path=listed.latest,
            all_model_checkpoint_paths=listed.saved or [listed.latest],
            all_model_checkpoint_timestamps=listed.saved.values(),
            last_preserved_timestamp=listed.last_kept or None,
        )
        return text_format.MessageToString(state)

    def damage_of(self, path: str) -> str | None:
        # TensorFlow verifies the checksum of a value when it is read.
        try:
            for tensor in open_checkpoint(path)[1].values():
                tensor.read()
        except InputError as error:
            return str(error).removeprefix(f"{path}: ")
        return None

    def _open(self, path: str) -> dict[str, Tensor]:
        _, values = open_checkpoint(path)
        values.pop(OBJECT_GRAPH, None)
        return {_unescaped(name.removesuffix(_VALUE)): each for name, each in values.items()}

    def start_saving(
        self, path: str, tree: Mapping[str, Any], is_chief: bool = True
    ) -> Callable[[], None]:
        if not is_chief:
            return lambda: None
        import tensorflow as tf

        with tensorflow_errors_as_os_errors(), tf.device("/cpu:0"):
            copies = {
                kind: {name: tf.Variable(value) for name, value in tree[kind].items()}
                for kind in ("params", "optimizer")
                if tree[kind]
            }
            step = tf.Variable(tf.cast(tree["step"], tf.int64))
            checkpoint = tf.train.Checkpoint(**copies, step=step)
            _ = checkpoint.save_counter  # created on access; checkpoints of training have one

        def finish() -> None:
            with tensorflow_errors_as_os_errors():
                _write(checkpoint, path)

        return finish


def _write(checkpoint: Any, path: str) -> None:
    checkpoint.write(path)
    for file in _files_of(path):
        sync(file)
    sync_names(os.path.dirname(path))


def _files_of(path: str) -> list[str]:
    """Return the files of a checkpoint, the index first."""
    folder, name = os.path.split(path)
    return [*files_in(folder, f"{name}.index"), *files_in(folder, f"{name}.data-*")]


def _list_format() -> tuple[Any, Any]:
    from google.protobuf import text_format
    from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

    return text_format, CheckpointState


def _unescaped(name: str) -> str:
    """Recover the keys of dictionaries from their escaped form in the name of a value."""
    return re.sub(r"\.(.)", lambda m: "/" if m[1] == "S" else m[1], name)


def open_checkpoint(path: str) -> tuple[Reader, dict[str, Tensor]]:
    """Return a reader of the checkpoint with the prefix `path`, of any program, and its values.

    Raises:
        InputError: If it cannot be read.
    """
    import tensorflow as tf

    @contextlib.contextmanager
    def errors_of(what: str) -> Iterator[None]:
        try:
            yield
        except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
            raise InputError(f"{path}: {what}cannot be read ({tensorflow_reason(error)})") from None

    def read(name: str) -> np.ndarray:
        with errors_of(f"{name} "):
            return reader.get_tensor(name)

    with errors_of(""):
        reader = tf.train.load_checkpoint(without_magic(path))
        shapes = {name: tuple(each) for name, each in reader.get_variable_to_shape_map().items()}
    return reader, {
        name: Tensor(name, shape, shape, functools.partial(read, name))
        for name, shape in shapes.items()
    }

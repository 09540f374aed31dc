"""Checkpoints that are flat dictionaries from variable paths to values.

Keys are the paths of the original project's names, not the attributes of any class, so a checkpoint
outlives refactorings and says by itself what it holds.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import remove, tensorflow_errors_as_os_errors
from albert_tf.interop.tensorflow_checkpoints import read_training_checkpoint
from albert_tf.interop.weights import match


class Checkpoints:
    """Saves and restores a training state in a folder.

    A checkpoint is written under temporary names first; only a complete one is listed in the file
    `checkpoint`, which is replaced in one step. So a run that is killed at any moment leaves the
    one before as the newest.

    Args:
        folder: where checkpoints `model.ckpt-STEP` are kept.
        model: its weights are saved under `params`.
        optimizer: already built; its state is saved under `optimizer`.
        keep: number of newest checkpoints that stay.
    """

    def __init__(
        self, folder: str, model: keras.Model, optimizer: keras.optimizers.Optimizer, keep: int = 5
    ):
        self.model = model
        self.iterations = optimizer.iterations
        moments = {v.path: v.value for v in optimizer.variables if v is not optimizer.iterations}
        self._checkpoint = tf.train.Checkpoint(
            params={weight.path: weight.value for weight in model.weights},
            optimizer=moments,
            step=self.iterations.value,
        )
        self._manager = tf.train.CheckpointManager(
            self._checkpoint, folder, max_to_keep=keep, checkpoint_name="model.ckpt"
        )

    @property
    def latest(self) -> str | None:
        """Path of the newest complete checkpoint."""
        return self._manager.latest_checkpoint

    def restore_latest(self) -> bool:
        """Restores the newest checkpoint, if there is one; says whether there was.

        Raises:
            InputError: it is of a model of another shape, or of another optimizer.
        """
        if self.latest is None:
            return False
        shapes = {weight.path: tuple(weight.shape) for weight in self.model.weights}
        match(shapes, read_training_checkpoint(self.latest), "output_dir")
        try:
            self._checkpoint.restore(self.latest).assert_consumed()
        except (AssertionError, ValueError):
            raise InputError(
                f"{self.latest}: was written with another optimizer or other heads; give the same "
                "--optimizer, or another --output_dir and this one as --init_checkpoint"
            ) from None
        return True

    def save(self) -> str:
        """Writes a checkpoint of the current step; returns its path.

        Raises:
            OSError: it cannot be written; nothing of it stays behind.
        """
        step = int(self.iterations.numpy())
        try:
            with tensorflow_errors_as_os_errors():
                return self._manager.save(checkpoint_number=step)
        except OSError:
            remove(f"{self._manager.directory}/model.ckpt-{step}_temp")
            raise

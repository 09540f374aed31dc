"""Checkpoints of training, of every engine: told apart, found, read, written."""

import os

from albert_tf.checkpoints.folder import NAME, CheckpointFolder, step_of
from albert_tf.checkpoints.orbax import OrbaxFolder
from albert_tf.checkpoints.tensorflow import TensorFlowFolder
from albert_tf.errors import InputError
from albert_tf.files import exists, is_remote

# By the names of the engines.
FOLDERS: dict[str, type[CheckpointFolder]] = {"tensorflow": TensorFlowFolder, "jax": OrbaxFolder}


def engines_in(folder: str) -> list[str]:
    """Return the engines whose checkpoints a folder seems to have; read none."""
    return [
        name
        for name, kind in FOLDERS.items()
        if exists(os.path.join(folder, kind.list_file)) or kind(folder).all()
    ]


def check_engine(folder: str, engine: str) -> None:
    """Check that an engine can train in `output_dir`, which need not exist.

    Raises:
        InputError: If the folder has checkpoints of another engine, or its server can keep none.
    """
    # Orbax and tensorstore take some characters for patterns, others for parts of an address.
    if is_remote(folder) and (not folder.startswith("gs://") or set(folder) & set("*?[#%")):
        raise InputError(
            f"`output_dir`={folder}: checkpoints are kept in local folders, and on gs:// under "
            "names without *, ?, [, # and %"
        )
    for other in engines_in(folder):
        if other != engine:
            raise InputError(
                f"`output_dir`={folder}: contains checkpoints of engine {other}; resume with "
                f"`engine`={other}, or convert them: "
                f"{conversion_command(folder, FOLDERS[engine].weights_format)}"
            )


def conversion_command(path: str, format: str) -> str:
    """Return the command that converts weights to another format."""
    return f"convert_checkpoint.py --input={path} --output=NEW_FOLDER --to={format}"

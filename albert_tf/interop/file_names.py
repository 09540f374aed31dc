"""Names of the files of models and exports, and where they are; loads no TensorFlow."""

import os
from typing import Any

from albert_tf.checkpoints import OrbaxFolder
from albert_tf.files import exists, is_folder, read_json
from albert_tf.task_kinds import task_kinds

ENCODER = "encoder"
PREPROCESS = "preprocess"
SAVED_MODEL = "saved_model.pb"
EXPORT_FILE = "export.json"  # what an export was made from

# Next to any weights: results of the last evaluation, its examples, and the pretraining data.
RESULTS_FILE = "eval_results.txt"
EVALUATION_DATA_FILE = "evaluation_data.json"
DATA_FILE = "training_data.json"

# In a training folder: the checkpoint with the best results of the evaluations during training.
BEST_FOLDER = "best"

# Next to the weights of fine-tuned models: how they read texts, and what their outputs mean.
LABELS_FILE = "labels.json"
SETTINGS_FILE = "fine_tuning.json"  # of kinds of tasks that name no other

# Where `--submission` writes, in the output folder of a fine-tuning run.
SUBMISSION_FOLDER = "submission"

# Next to the checkpoints of a fine-tuning run with --freeze: the patterns of frozen variables.
FROZEN_FILE = "frozen.json"

# The flags of the last start of training, and a hash of the training data.
START_FILE = "last_start.json"


def run_files() -> tuple[str, ...]:
    """Return what a run that resumes reads in its folder, besides what is next to any weights."""
    return (
        *("data_order.json", "dtype.json", START_FILE),
        *(kind.settings_file for kind in task_kinds()),
        *(SETTINGS_FILE, FROZEN_FILE, "metrics.jsonl", "evaluations.jsonl"),
    )


def kept_results() -> tuple[str, ...]:
    """Return the names of results that belong to a model, whatever the checkpoint."""
    return tuple(name for kind in task_kinds() for name in kind.kept_results)


def encoder_folder(path: str) -> str:
    """Return the SavedModel of the encoder if `path` is an export, and `path` otherwise."""
    inside = os.path.join(path, ENCODER)
    is_export = not exists(os.path.join(path, SAVED_MODEL))
    return inside if is_export and exists(os.path.join(inside, SAVED_MODEL)) else path


def read_export(folder: str) -> dict[str, Any]:
    """Return the content of an export's `export.json`; {} if there is none.

    Raises:
        InputError: If the file is damaged.
    """
    file = os.path.join(folder, EXPORT_FILE)
    return read_json(file, dict[str, Any]) if exists(file) else {}


def folder_of(path: str) -> str:
    """Return the folder of the files next to some weights.

    These are a file, a checkpoint (of engine jax, a folder itself), or a folder.
    """
    path = path.rstrip("/")
    is_checkpoint = not is_folder(path) or OrbaxFolder.is_checkpoint(path)
    return os.path.dirname(path) if is_checkpoint else path

"""Options of the export program; loads no TensorFlow."""

from __future__ import annotations

import dataclasses

from albert_tf.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Flags of export_saved_model.py."""

    init_checkpoint: str = option(help="Checkpoint to export, or a training folder: its newest.")
    export_path: str = option(help="Folder to write the SavedModel to; must not exist.")
    albert_config_file: str | None = option(
        None, "The model's albert_config.json; without it, the one beside the checkpoint."
    )
    spm_model_file: str = option(help="SentencePiece model of the vocabulary.")
    do_lower_case: bool = option(True, "Whether text is to be lower-cased before the tokenizer.")

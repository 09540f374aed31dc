"""Flags of run_classifier.py; loads no TensorFlow."""

from __future__ import annotations

import dataclasses

from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.options import option


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifierOptions(FineTuningOptions):
    """Flags of run_classifier.py."""

    task_name: str = option(
        "table",
        "A task of GLUE (CoLA, MNLI, ...) or CLUE (AFQMC, TNEWS, ...), in any case, or table for "
        "your own files.",
    )
    data_dir: str | None = option(
        None,
        "Folder of CLUE (tnews/train.json, ...), or of GLUE as published (CoLA/train.tsv, ...) or "
        "as on the Hugging Face Hub, from which GLUE is taken by default; may be "
        "hf://datasets/ORGANIZATION/NAME.",
    )
    submission: bool = option(
        False, "Whether --do_predict also writes the file that the server of GLUE or CLUE accepts."
    )

    train_file: str | None = option(
        None,
        "Table to train on: .tsv, .csv, .jsonl, .parquet, .xlsx; may be "
        "hf://datasets/ORGANIZATION/NAME/FILE.",
    )
    eval_file: str | None = option(None, "Table to evaluate on, with the same columns.")
    predict_file: str | None = option(
        None,
        "Table to predict; the label column is optional. - for lines of standard input: one text "
        "each, or two separated by a tab.",
    )
    class_files: tuple[str, ...] = option(
        (), "Instead of --train_file: one file per label, named after it; comma-separated."
    )
    header: bool = option(True, "Whether the first line of the tables names the columns.")
    text_column: str | None = option(
        None, "Column of the text; by default text, or 1 with --noheader."
    )
    text_pair_column: str | None = option(None, "Column of the second text, for pairs of texts.")
    label_column: str | None = option(
        None, "Column of the label; by default label, or 2 with --noheader."
    )
    id_column: str | None = option(None, "Column that identifies rows in predictions.")
    regression: bool = option(False, "Whether the labels are numbers to predict.")
    multi_label: bool = option(False, "Whether a row may have several labels, or none.")
    label_separator: str = option(",", "With --multi_label: separates the labels of a row.")
    test_size: float = option(0.0, "Share of the training rows held out for evaluation; 0: none.")
    test_seed: int = option(0, "Seed that chooses the held-out rows.")

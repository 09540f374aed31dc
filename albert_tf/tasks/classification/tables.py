"""The data set that the options name: a published one, or the user's own tables."""

import os
from collections.abc import Sequence

import numpy as np

from albert_tf.errors import InputError
from albert_tf.hub.huggingface import check_language
from albert_tf.tasks.classification.benchmarks import CLUE, GLUE
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Columns,
    Example,
    RowSet,
    TableFile,
)
from albert_tf.tasks.classification.options import ClassificationOptions, check_long_texts
from albert_tf.tasks.classification.published import MULTILINGUAL, SUPERGLUE

PUBLISHED = GLUE | CLUE | SUPERGLUE | MULTILINGUAL

_OTHER_NAMES = {"sst": "SST-2", "sts": "STS-B", "diagnostic": "AX", "mnlimm": "MisMNLI"}

_TABLE_OPTIONS = (
    *("train_file", "eval_file", "predict_file", "class_files"),
    *("text_column", "text_pair_column", "label_column", "id_column"),
    *("regression", "multi_label", "test_size", "folds"),
)


def find_dataset(options: ClassificationOptions) -> ClassificationDataset:
    """Return the data set named by `task_name`, ignoring case and hyphens.

    Raises:
        InputError: If there is none of that name, or options exclude each other.
    """
    known = (*PUBLISHED, "table")
    names = {_plain(name): name for name in known} | _OTHER_NAMES
    name = names.get(_plain(options.task_name or "table"))
    if name is None:
        raise InputError(f"`task_name`={options.task_name}: must be one of {', '.join(known)}")
    dataset = table_dataset(options) if name == "table" else PUBLISHED[name]
    if options.submission and not (dataset.submitted and options.do_predict):
        raise InputError(
            "`submission`: needs a task of GLUE or CLUE or SuperGLUE, and `do_predict`"
        )
    check_long_texts(options.long_texts, dataset.pairs)
    splits, language = options.splits(), options.language
    if splits or language:
        check_language(language, dataset.languages)
    if name == "table":
        return dataset
    for option in _TABLE_OPTIONS:
        if getattr(options, option) and not (option == "predict_file" and options.streams):
            raise InputError(
                f"`{option}`: needs `task_name`=table; `task_name`={name} reads `data_dir`"
            )
    return (dataset.of_language(language) if language else dataset).located(
        options.data_dir, splits
    )


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


# What is predicted -> its metrics.
_METRICS = {
    "classification": ("accuracy", "macro_f1"),
    "regression": ("pearson", "spearman", "mse"),
    "multi_label": ("micro_f1", "macro_f1", "exact_match"),
}


def table_dataset(options: ClassificationOptions) -> ClassificationDataset:
    """Return the data set of `task_name`=table.

    Raises:
        InputError: If options exclude each other.
    """
    for first, second in (("regression", "multi_label"), ("test_size", "eval_file")):
        if getattr(options, first) and getattr(options, second):
            raise InputError(f"`{first}` and `{second}` exclude each other")
    if options.multi_label and options.label_separator == "":
        raise InputError("`label_separator`: must not be empty")
    columns, header = _columns(options), () if options.header is False else None
    sets: dict[str, tuple[RowSet, ...]] = {
        split: (RowSet((TableFile(path, columns, header),)),) if path else ()
        for split, path in (
            ("train", options.train_file),
            ("eval", options.eval_file),
            ("predict", None if options.streams else options.predict_file),
        )
    }
    # How the trained folder reads other rows.
    record = {
        "header": options.header is not False,
        "text_column": columns.text,
        "text_pair_column": columns.pair,
        "label_column": columns.label,
    }
    if options.class_files:
        sets["train"] = (RowSet(_class_files(options)),)
        record = {"header": False, "text_column": "1"}
    kinds = (kind for kind in ("regression", "multi_label") if getattr(options, kind))
    target = next(kinds, "classification")
    return ClassificationDataset(
        name="table",
        sets=sets,
        pairs=columns.pair is not None,
        metrics=_METRICS[target],
        target=target,
        label_separator=options.label_separator or ",",
        missing={
            "train": "`train_file`: training needs a file, or `class_files`",
            "eval": "`eval_file`: evaluation needs a file, or `test_size`, which holds out some of "
            "the training rows",
            "predict": "`predict_file`: prediction needs a file",
        },
        held_out=options.test_size,
        held_out_seed=options.test_seed,
        folds=options.folds or 0,
        record=record,
    )


def _columns(options: ClassificationOptions) -> Columns:
    by_number = options.header is False
    for option in ("text_column", "text_pair_column", "label_column", "id_column"):
        name = getattr(options, option)
        if by_number and name and not name.isdecimal():
            raise InputError(
                f"`{option}`={name}: must be a number, from 1, because `header` is false"
            )
    return Columns(
        options.text_column or ("1" if by_number else "text"),
        options.text_pair_column,
        options.label_column or ("2" if by_number else "label"),
        options.id_column,
    )


def _class_files(options: ClassificationOptions) -> tuple[TableFile, ...]:
    """Return one file per label, named after it, with the texts in the first column."""
    if options.train_file or options.regression or options.multi_label or options.text_pair_column:
        raise InputError(
            "`class_files`: excludes `train_file`, `regression`, `multi_label` and "
            "`text_pair_column`"
        )
    files: dict[str, TableFile] = {}
    for path in options.class_files:
        label = os.path.splitext(os.path.basename(path))[0]
        if label in files:
            raise InputError(
                f"`class_files`: both {files[label].path} and {path} stand for {label!r}, "
                "the label that is the name of the file"
            )
        files[label] = TableFile(path, Columns("1"), header=(), label=label)
    if len(files) < 2:
        raise InputError(
            f"`class_files`={','.join(options.class_files)}: must be at least two files, one per "
            "label, separated by commas"
        )
    return tuple(files.values())


def hold_out(
    dataset: ClassificationDataset, examples: list[Example]
) -> tuple[list[Example], list[Example]]:
    """Split the training rows into those to train on and those held out, both in file order.

    Every label keeps its share, as closely as whole rows allow. Rows without a label are trained
    on.

    Raises:
        InputError: If too few rows, or a label has only one.
    """
    labeled = np.array([row for row, each in enumerate(examples) if each.label is not None])
    stratify, groups = None, 1
    if dataset.target == "classification":
        stratify = [examples[row].likeliest_label for row in labeled]
        rarest, rows, groups = _rarest(stratify)
        if rows < 2:
            raise InputError(
                f"`test_size`={dataset.held_out}: label {rarest!r} has only one row, which cannot "
                "serve both training and evaluation"
            )
    count = int(np.ceil(dataset.held_out * len(labeled)))
    if count < groups or len(labeled) - count < groups:
        raise InputError(
            f"`test_size`={dataset.held_out}: would hold out {count} of {len(labeled)} rows; at "
            f"least {groups} (one per label) must be held out, and as many trained on"
        )
    from sklearn.model_selection import train_test_split  # slow to load, and rarely needed

    seed = dataset.held_out_seed
    _, held_out = train_test_split(labeled, test_size=count, random_state=seed, stratify=stratify)
    train = np.setdiff1d(np.arange(len(examples)), held_out)
    return [examples[row] for row in train], [examples[row] for row in sorted(held_out)]


def _rarest(labels: Sequence[str]) -> tuple[str, int, int]:
    """Return the label with the fewest rows, their number, and the number of labels."""
    names, counts = np.unique(labels, return_counts=True)
    return str(names[counts.argmin()]), int(counts.min()), len(names)


def fold_rows(
    dataset: ClassificationDataset, examples: Sequence[Example]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the folds of the training rows: those to train on, and those to predict.

    Every label has the same share in all folds, as closely as whole rows allow.

    Raises:
        InputError: If there are fewer rows, or rows of a label, than folds.
    """
    for example in examples:
        if example.label is None:
            raise InputError(f"`folds`={dataset.folds}: {example.location} has no label to score")
    one_label = dataset.target == "classification"
    labels = [example.likeliest_label for example in examples] if one_label else None
    rows, of_what = len(examples), ""
    if labels:
        label, rows, _ = _rarest(labels)
        of_what = f" with label {label!r}"
    if rows < dataset.folds:
        raise InputError(
            f"`folds`={dataset.folds}: must be at most {rows}, the number of rows{of_what}"
        )
    from sklearn import model_selection  # slow to load, and rarely needed

    split = model_selection.StratifiedKFold if one_label else model_selection.KFold
    splitter = split(dataset.folds, shuffle=True, random_state=dataset.held_out_seed)
    return [*splitter.split(examples, labels)]

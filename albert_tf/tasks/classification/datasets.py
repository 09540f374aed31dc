"""Data sets of text classification: where their rows are, what the labels mean, and examples.

Those of GLUE and CLUE are in `classification.benchmarks`, others in `classification.published`,
with all files that they are published as; `located` finds those of a folder.
`classification.tables` describes the user's own files.
"""

import contextlib
import dataclasses
import functools
import glob
import logging
import math
import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.hub.huggingface import LANGUAGE, local_folder
from albert_tf.logs import counted

logger = logging.getLogger(__name__)


class Columns(NamedTuple):
    """Names of columns; None for what a table does not have.

    The `id` identifies rows in predictions; without one, their numbers do, from 0.
    """

    text: str
    pair: str | None = None
    label: str | None = None
    id: str | None = None


@dataclasses.dataclass(frozen=True)
class TableFile:
    """Rows of one file.

    Attributes:
        path: of the file; of a published file, its name in the folder of the task, or a glob.
        columns: the columns to read.
        header: names of all columns if the first line is already a row; () to number them, from
            "1". None: the first line names them.
        label: the label of all rows, if the file stands for one.
        numbered_labels: the labels that the file writes as numbers, in their order; -1 stands for
            an unknown label there.
        read: returns the rows; None to choose by the ending of the file name.
        needs: name of another published file; this one is read only if that one exists too.
        submission: as in `RowSet`, if it depends on the file.
    """

    path: str
    columns: Columns
    header: tuple[str, ...] | None = None
    label: str | None = None
    numbered_labels: tuple[str, ...] = ()
    read: files.RowReader | None = None
    needs: str | None = None
    submission: str | None = None


class RowSet(NamedTuple):
    """Rows that are scored, or predicted, together, such as the mismatched ones of MNLI.

    Attributes:
        files: their rows, one file after the other; of published data, files with the same rows,
            the first existing one of which is read.
        name: distinguishes the sets of a split.
        suffix: appended to the names of results and prediction files; "" for the main set.
        submission: file name that the benchmark's server expects; None if it expects none.
    """

    files: tuple[TableFile, ...]
    name: str = ""
    suffix: str = ""
    submission: str | None = None

    @property
    def file_names(self) -> str:
        """The names of the files, without their folders."""
        return ", ".join(os.path.basename(file.path) for file in self.files)

    def located(self, root: str, folders: Sequence[str]) -> "RowSet":
        """Return the set with the first of its files that exists in one of the folders in `root`.

        Raises:
            InputError: If there is none.
        """
        for file in self.files:
            for folder in (os.path.join(root, name) for name in folders):
                if file.needs and not files.exists(os.path.join(folder, file.needs)):
                    continue
                if paths := files.matches(os.path.join(glob.escape(folder), file.path)):
                    return self._replace(
                        files=tuple(dataclasses.replace(file, path=path) for path in paths),
                        submission=file.submission or self.submission,
                    )
        # The folder of Parquet files is the last one.
        expected = [
            os.path.join(root, folders[-2 if "*" in file.path else 0], file.path)
            for file in self.files
        ]
        raise InputError(f"`data_dir`={root}: contains no {' or '.join(expected)}")


@dataclasses.dataclass(frozen=True)
class ClassificationDataset:
    """A data set of text classification.

    Attributes:
        name: as `task_name` writes it.
        sets: split ("train", "eval", "predict") -> its sets; exactly one for "train".
        pairs: whether an example is a pair of texts.
        metrics: names in `albert_tf.finetuning.metrics.METRICS`; the first is the main one.
        target: what is predicted: a name in `albert_tf.tasks.classification.targets.TARGETS`.
        labels: the labels in order; None to collect them from the training rows.
        unlabeled: stands for a label on which annotators did not agree; such rows are skipped.
        label_separator: separates the labels of a row that has several.
        missing: split -> the error if it is needed and has no set.
        held_out: share of the training rows used for evaluation instead; 0: none.
        held_out_seed: chooses these rows, or the folds.
        folds: number of folds of the training rows, for cross-validation; 0: none.
        record: options that the trained folder records, so that other rows are read alike.
        benchmark: that the data set belongs to, whose texts may be empty; None for own tables.
        folders: names of the folder in which the benchmark publishes the files.
        repository: folder of the benchmark on the Hugging Face Hub; None if it is not there.
        submitted: ids and labels of predicted rows -> content of the file for the benchmark's
            server.
        languages: as for `check_language`.
        grouped: whether the id of a row is that of its group, a hyphen and another one; the
            results then contain the share of the groups whose rows are all right.
    """

    name: str
    sets: dict[str, tuple[RowSet, ...]]
    pairs: bool = False
    metrics: tuple[str, ...] = ("accuracy",)
    target: str = "classification"
    labels: tuple[str, ...] | None = None
    unlabeled: str | None = None
    label_separator: str = ","
    missing: dict[str, str] = dataclasses.field(default_factory=dict)
    held_out: float = 0.0
    held_out_seed: int = 0
    folds: int = 0
    record: dict[str, Any] = dataclasses.field(default_factory=dict)
    benchmark: str | None = None
    folders: tuple[str, ...] = ()
    repository: str | None = None
    submitted: Callable[[Sequence[str], Sequence[str]], str] | None = None
    languages: str = ""
    grouped: bool = False

    def of_language(self, language: str) -> "ClassificationDataset":
        """Return the data set in one language: a part of paths, and an argument of readers."""

        def translated(file: TableFile) -> TableFile:
            read: Any = file.read and functools.partial(file.read, language=language)  # type: ignore
            return dataclasses.replace(file, path=file.path.replace(LANGUAGE, language), read=read)

        sets = {
            split: tuple(rows._replace(files=tuple(map(translated, rows.files))) for rows in each)
            for split, each in self.sets.items()
        }
        return dataclasses.replace(self, sets=sets)

    def located(self, data_dir: str | None, splits: Sequence[str]) -> "ClassificationDataset":
        """Return the data set with its files in a folder.

        Args:
            data_dir: folder with one subfolder per task, or the folder of the task itself; local or
                `hf://datasets/ORGANIZATION/NAME`. None for `repository`.
            splits: whose files are needed; the others have no set.

        Raises:
            InputError: If one of these files is missing.
        """
        place, folders = data_dir or self.repository, (*self.folders, "")
        if splits and place is None:
            raise InputError(
                f"`data_dir`: `task_name`={self.name} needs the folder of {self.benchmark}"
            )
        sets = {split: self.sets[split] if split in splits else () for split in self.sets}
        needed = [
            [
                os.path.join(folder, name)
                for file in rows.files
                for name in (file.path, file.needs)
                if name
                for folder in folders
            ]
            for each in sets.values()
            for rows in each
        ]
        root = local_folder(place or "", needed, "data_dir")
        located = {split: tuple(r.located(root, folders) for r in sets[split]) for split in sets}
        return dataclasses.replace(self, sets=located)


def normalized_label(label: str) -> str:
    """Return a label as classes are named: white space folded, characters composed (NFC).

    Labels that look the same are the same, and so are equal numbers.
    """
    if isinstance(label, files.ValueText):
        return files.text_of(label.value)
    return " ".join(unicodedata.normalize("NFC", label).split())


def whole_number(label: str) -> str:
    """Return a label, and "1" for "1.0", as earlier versions named such a number of JSON."""
    return re.sub(r"^(-?\d+)\.0$", r"\1", label)


# What rounded probabilities may add up to instead of 1, at most.
_ROUNDING = 0.0101


def label_probabilities(location: str, values: Mapping[str, Any]) -> dict[str, float]:
    """Return label -> probability of a row whose label is not certain, with a sum of 1.

    A value is None where Parquet files have labels of other rows.

    Raises:
        InputError: If they are no probabilities, or do not add up to 1.
    """
    found: dict[str, float] = {}
    for label, value in values.items():
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise InputError(
                f"{location}: the probability of label {label!r} is {value!r}; must be a number "
                "from 0 to 1"
            )
        name = normalized_label(label)
        found[name] = found.get(name, 0.0) + value
    total = sum(found.values())
    if abs(total - 1) > _ROUNDING:
        raise InputError(
            f"{location}: the probabilities {files.shown(values)} add up to {total:g}; must be 1"
        )
    return {label: value / total for label, value in found.items()}


class Example(NamedTuple):
    """One text, or pair of texts.

    Attributes:
        location: "file:line", for errors.
        text: the first text.
        text_pair: the second; None for tasks on single texts.
        label: as `normalized_label` returns it, a list if the table contains one, or label ->
            probability as of `label_probabilities`; None if unknown.
        id: of the row, in predictions.
    """

    location: str
    text: str
    text_pair: str | None
    label: str | list[str] | dict[str, float] | None
    id: str = ""

    @property
    def probabilities(self) -> dict[str, float]:
        """Label -> probability; of a label that is certain, 1; {} if there is none."""
        if isinstance(self.label, dict):
            return self.label
        return {} if self.label is None else {cast(str, self.label): 1.0}

    @property
    def likeliest_label(self) -> str:
        """The most probable label, the first of equals; "" if there is none."""
        return max(self.probabilities, key=self.probabilities.__getitem__, default="")

    def number(self) -> float:
        """Return the label as a number.

        Raises:
            InputError: If it is none.
        """
        try:
            value = float(self.label)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"{self.location}: label {self.label!r} is not a number")
        return value

    def several_labels(self, separator: str) -> list[str]:
        """Return the distinct labels of a row that may have several."""
        labels = self.label or []
        if isinstance(labels, str):
            labels = [labels] if isinstance(labels, files.ValueText) else labels.split(separator)
        return list(dict.fromkeys(normalized_label(label) for label in labels if label.strip()))


# Stands for a label that is not known, in files that write labels as numbers.
_UNLABELED = "-"


def read_examples(
    dataset: ClassificationDataset, rows: RowSet, labeled: bool | None, may_lack_label: bool = False
) -> list[Example]:
    """Return the examples of a set, with labels if it is `labeled`; if None, where there are any.

    Raises:
        InputError: If a file or a column is missing, a field is empty, or there is no row.
    """
    examples: list[Example] = []
    unlabeled, may_be_empty = 0, dataset.benchmark is not None
    for file in rows.files:
        before, columns = len(examples) + unlabeled, file.columns
        for row in files.read_rows(file.path, file.header, file.read):
            label: Any = file.label
            if labeled and label is None:
                label = _label(dataset, file, row, may_lack_label)
            elif labeled is None and columns.label in row.values:
                with contextlib.suppress(InputError):  # the column may contain anything
                    found = _label(dataset, file, row, may_lack_label)
                    label = None if dataset.benchmark and found == "-1" else found
            text = row.text(columns.text, may_be_empty)
            pair = row.text(columns.pair, may_be_empty) if columns.pair else None
            # Only some of GLUE's labeled tables have an id, and nothing needs it there.
            has_id = columns.id is not None and not (labeled and columns.id not in row.values)
            id = str(row.value(columns.id) if has_id else len(examples))
            if labeled and dataset.unlabeled is not None and label == dataset.unlabeled:
                unlabeled += 1
            else:
                examples.append(Example(row.location, text, pair, label, id))
        if len(examples) + unlabeled == before:
            raise InputError(f"{file.path}: no row after the header")
    if unlabeled:
        logger.info(
            "%s: skipped %s without an agreed label", rows.files[0].path, counted(unlabeled, "row")
        )
    if not examples:
        raise InputError(f"{rows.files[0].path}: no row has a label")
    return examples


def _label(
    dataset: ClassificationDataset, file: TableFile, row: files.Row, may_lack_label: bool
) -> Any:
    column, names = file.columns.label, file.numbered_labels
    where = f"{row.location}: column {column!r}"
    if may_lack_label and not str(row.values.get(str(column), "")).strip():
        return None
    label = row.value(column)
    if names:
        by_number = {"-1": _UNLABELED, **{str(number): name for number, name in enumerate(names)}}
        if str(label) not in by_number:
            raise InputError(
                f"{row.location}: label {label} must be a number from 0 to {len(names) - 1}, or "
                "-1 for none"
            )
        return by_number[str(label)]
    for each in label if isinstance(label, list) else [label]:
        value = files.value_of(each)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            raise InputError(f"{where} contains {each or 'null or NaN'}, no label")
    if dataset.target == "classification" and isinstance(label, str) and label.startswith('{"'):
        label = files.parse_json(label, where, dict[str, Any])
    if isinstance(label, dict):
        if dataset.target != "classification":
            raise InputError(
                f"{where} contains an object; only a single label per row may be given as "
                "probabilities"
            )
        return label_probabilities(row.location, label)
    if dataset.target == "multi_label":
        return label
    if isinstance(label, list):
        raise InputError(f"{where} contains a list; for several labels per row set `multi_label`")
    if not label.strip():
        raise InputError(f"{where} is empty")
    return normalized_label(label)

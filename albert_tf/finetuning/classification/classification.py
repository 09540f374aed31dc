"""Classification of texts and pairs of texts, and regression on them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_text, write_text
from albert_tf.finetuning.classification.featurize import featurize
from albert_tf.finetuning.classification.glue import GLUE, SUBMISSION_FOLDER, glue_task
from albert_tf.finetuning.classification.tables import hold_out, table_task
from albert_tf.finetuning.classification.target_report import report_sections
from albert_tf.finetuning.classification.targets import TARGETS, Target, restore
from albert_tf.finetuning.classification.tasks import Example, RowSet, Task, read_examples
from albert_tf.finetuning.finetuning_options import ClassifierOptions
from albert_tf.finetuning.metrics import METRICS
from albert_tf.finetuning.task import ExampleSet, Problem
from albert_tf.flops import classification_flops
from albert_tf.interop.companions import LABELS_FILE, TARGET_FILE
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.report.sections import Section
from albert_tf.tokenizers import Tokenizer


class Classification(Problem):
    """A label, several or a number for each text, or pair of texts.

    Predictions are `test_results.tsv` (a row of probabilities, or a number, per input row),
    `predictions.tsv` (the rows' ids and labels) and, for GLUE, `submit_results.tsv`.

    Args:
        options: of run_classifier.py.
        tokenizer: of the model.

    Raises:
        InputError: a flag or file is not what it should be.
    """

    outputs = ("logits",)

    def __init__(self, options: ClassifierOptions, tokenizer: Tokenizer):
        self._options = options
        self._tokenizer = tokenizer
        self._task = create_task(options)
        self.metric = METRICS[self._task.metrics[0]].key
        rows = self._read()
        self._target = self._find_target(rows.get("train"))
        self.objective = self._target.objective
        self._row_sets: dict[str, RowSet] = {}
        self.sets = {
            split: [self._set(split, rows_of, examples) for rows_of, examples in there]
            for split, there in rows.items()
        }

    def _read(self) -> dict[str, list[tuple[RowSet, list[Example]]]]:
        """The examples of the splits that are asked for."""
        task, asked = self._task, self._options.splits()
        rows = {}
        for split in asked:
            if split == "eval" and task.held_out:
                continue
            if not task.sets[split]:
                raise InputError(task.missing[split])
            rows[split] = [
                (rows_of, read_examples(task, rows_of, labelled=split != "predict"))
                for rows_of in task.sets[split]
            ]
        if task.held_out and {"train", "eval"} & set(asked):
            if not task.sets["train"]:
                raise InputError(task.missing["train"])
            (rows_of,) = task.sets["train"]
            parts = hold_out(task, read_examples(task, rows_of, labelled=True))
            for split, part in zip(("train", "eval"), parts, strict=True):
                if split in asked:
                    rows[split] = [(rows_of, part)]
        return {split: rows[split] for split in asked}

    def _find_target(self, train: list[tuple[RowSet, list[Example]]] | None) -> Target:
        """From the training rows, or what the model in the folder was trained on."""
        folder = self._options.output_dir
        there = self._trained_target()
        if train is None:
            if there is None:
                raise InputError(
                    f"--output_dir={folder}: holds no trained classifier ({LABELS_FILE})"
                )
            if there.kind != self._task.target:
                raise InputError(
                    f"--output_dir={folder}: holds a model for {there.kind}, not for "
                    f"{self._task.target}"
                )
            if self._task.labels not in (None, there.labels):
                raise self._other_labels(there)
            return there
        ((_, examples),) = train
        target = TARGETS[self._task.target].learn(self._task, examples)
        if there is not None and (there.kind, there.labels) != (target.kind, target.labels):
            raise self._other_labels(there)
        return target

    def _trained_target(self) -> Target | None:
        told, labels = (
            json.loads(read_text(path)) if exists(path) else None
            for path in (
                f"{self._options.output_dir}/{name}" for name in (TARGET_FILE, LABELS_FILE)
            )
        )
        return restore(self._task, told, labels or ()) if told or labels else None

    def _other_labels(self, there: Target) -> InputError:
        what = f"other labels ({', '.join(there.labels[:10])})" if there.labels else "numbers"
        return InputError(f"--output_dir={self._options.output_dir}: holds a classifier of {what}")

    def _set(self, split: str, rows_of: RowSet, examples: list[Example]) -> ExampleSet:
        options = self._options
        cached_dir = options.cached_dir if split in options.splits() else None
        features = featurize(examples, self._tokenizer, options.max_seq_length, cached_dir)
        if split != "predict":
            features.arrays[self._target.feature] = self._target.encode(examples)
        self._row_sets[rows_of.name] = rows_of
        return ExampleSet(rows_of.name, features, examples)

    def create_model(self, config: AlbertConfig, dtype: str) -> AlbertForSequenceClassification:
        return AlbertForSequenceClassification(
            config, self._target.outputs, self._options.classifier_dropout, dtype=dtype
        )

    def flops_per_example(self, config: AlbertConfig) -> float:
        return classification_flops(config, self._options.max_seq_length, self._target.outputs)

    def description(self) -> dict[str, str]:
        return self._target.description(
            pairs=self._task.pairs,
            max_seq_length=self._options.max_seq_length,
            label_separator=self._task.label_separator,
        )

    def score(self, examples: ExampleSet, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        truth = examples.features.arrays[self._target.feature]
        scores = self._target.score(truth, outputs["logits"])
        suffix = self._row_sets[examples.name].suffix
        return {f"{name}{suffix}": value for name, value in scores.items()}

    def collapsed(self, outputs: dict[str, np.ndarray]) -> str | None:
        return self._target.collapsed(outputs["logits"])

    def write_predictions(
        self, folder: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> None:
        logits, rows_of = outputs["logits"], self._row_sets[examples.name]
        ids = [example.id for example in examples.examples]
        values = ("\t".join(map(_short, row)) for row in self._target.values(logits))
        write_text(f"{folder}/test_results{rows_of.suffix}.tsv", "".join(f"{v}\n" for v in values))
        answers = self._target.answers(logits)
        path = f"{folder}/predictions{rows_of.suffix}.tsv"
        _write_columns(path, ("id", "label"), ids, answers)
        print(f"{len(answers)} predictions in {path}")
        if rows_of.submission:
            submitted = self._target.submitted(logits)
            header = ("index", "prediction")
            path = f"{folder}/submit_results{rows_of.suffix}.tsv"
            _write_columns(path, header, ids, submitted)
            if self._options.submission:
                make_folder(f"{folder}/{SUBMISSION_FOLDER}", "output_dir")
                path = f"{folder}/{SUBMISSION_FOLDER}/{rows_of.submission}"
                _write_columns(path, header, ids, submitted)
                print(f"for GLUE's server: {path}")

    def report(
        self, split: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> list[Section]:
        truth = examples.features.arrays.get(self._target.feature)
        suffix = self._row_sets[examples.name].suffix
        return report_sections(self._target, examples, truth, outputs["logits"], suffix)

    def read_lines(self, lines: Sequence[str], first: int) -> ExampleSet:
        has_pair = self._task.pairs
        examples = []
        for number, line in enumerate(lines, start=first):
            fields = line.split("\t") if has_pair else [line]
            if has_pair and len(fields) != 2:
                raise InputError(
                    f"standard input, line {number}: {len(fields)} texts; a pair is two, with a "
                    "tab between"
                )
            location = f"standard input, line {number}"
            examples.append(Example(location, fields[0], fields[1] if has_pair else None, None))
        return self._set("predict", RowSet(()), examples)

    def result_lines(self, examples: ExampleSet, outputs: dict[str, np.ndarray]) -> list[str]:
        """The answer, and the probability of every label in the order of `labels.json`."""
        logits = outputs["logits"]
        rows = zip(self._target.answers(logits), self._target.values(logits), strict=True)
        return ["\t".join([answer, *map(_short, values)]) for answer, values in rows]


def _short(value: float) -> str:
    return f"{value:.8g}"


def _write_columns(path: str, header: tuple[str, str], ids: list[str], answers: list[str]) -> None:
    lines = ("\t".join(row) for row in (header, *zip(ids, answers, strict=True)))
    write_text(path, "".join(f"{line}\n" for line in lines))


def create_task(options: ClassifierOptions) -> Task:
    """The task called `--task_name`, its case and hyphens aside.

    Raises:
        InputError: there is none of that name, or flags do not go together.
    """
    names = {_plain(name): name for name in (*GLUE, "table")} | _OTHER_NAMES
    name = names.get(_plain(options.task_name))
    if name is None:
        raise InputError(
            f"--task_name={options.task_name}: must be one of {', '.join((*GLUE, 'table'))}"
        )
    if options.submission and (name == "table" or not options.do_predict):
        raise InputError("--submission: is for the tasks of GLUE, with --do_predict")
    if name == "table":
        return table_task(options)
    for flag in _TABLE_FLAGS:
        if getattr(options, flag) and not (flag == "predict_file" and options.streams):
            raise InputError(
                f"--{flag}: is for --task_name=table; --task_name={name} reads --data_dir"
            )
    return glue_task(name, options.data_dir, options.splits())


_OTHER_NAMES = {"sst": "SST-2", "sts": "STS-B", "diagnostic": "AX", "mnlimm": "MisMNLI"}

_TABLE_FLAGS = (
    "train_file",
    "eval_file",
    "predict_file",
    "class_files",
    "text_column",
    "text_pair_column",
    "label_column",
    "id_column",
    "regression",
    "multi_label",
    "test_size",
)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")

"""Classification of texts and pairs of texts, and regression on them."""

import contextlib
import dataclasses
import functools
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import log_softmax

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, read_json, write_text
from albert_tf.finetuning.metrics import METRICS
from albert_tf.finetuning.task import Baseline, ExampleSet, FineTuningTask, Fold, Outputs
from albert_tf.flops import classification_flops
from albert_tf.input.examples import Features
from albert_tf.interop.adjacent_files import AdjacentFiles, labels_text, read_labels
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.interop.loading import labels_in
from albert_tf.logs import counted
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.report.sections import Section
from albert_tf.tasks.classification import KIND
from albert_tf.tasks.classification.benchmarks import two_columns
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Example,
    RowSet,
    read_examples,
    whole_number,
)
from albert_tf.tasks.classification.encoding import class_weights, combined, featurize
from albert_tf.tasks.classification.options import (
    TEXTS,
    ClassificationOptions,
    ClassificationSettings,
)
from albert_tf.tasks.classification.tables import find_dataset, fold_rows, hold_out
from albert_tf.tasks.classification.targets import TARGETS, Target
from albert_tf.tokenizers import Tokenizer

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class SavedTarget(ClassificationSettings):
    """What `target.json` says about a trained model, besides what its export needs."""

    spread: float = 0.0
    task_name: str | None = None


def restore(
    dataset: ClassificationDataset, saved: SavedTarget | None, labels: Sequence[str]
) -> Target:
    """Return what the outputs of a trained model mean, by its `target.json` and `labels.json`.

    Without a `target.json`, the model is a plain classifier, or one of numbers if it has a single
    label. Labels of the data set that a model of another origin has in another order, with other
    capitals, or as LABEL_0 for 0, are those of the data set, in the order of the model's outputs.
    """
    kind: Any = AdjacentFiles().target(KIND, len(labels)) or SavedTarget.kind
    saved = saved or SavedTarget(kind=kind)
    names = {label.casefold(): label for label in dataset.labels or ()}
    folded = [label.casefold().removeprefix("label_") for label in labels]
    if len(labels) == len(names) and names.keys() == {*folded}:
        labels = [names[label] for label in folded]
    return TARGETS[saved.kind](dataset, tuple(labels), saved.spread)


class ClassificationTask(FineTuningTask):
    """Predicts one label, several labels or a number for each text, or pair of texts.

    Predictions are `test_results.tsv` (a row of probabilities, or a number, per input row),
    `predictions.tsv` (the rows' ids and labels) and, for tasks of a benchmark, `submit_results.tsv`
    or `.json`, in the form that its server expects.

    Args:
        target: what the outputs mean, where neither training rows nor a trained folder say it.

    Attributes:
        dataset: where rows are, and what their labels mean.
    """

    options: ClassificationOptions
    reads_standard_input = True

    def __init__(
        self, options: ClassificationOptions, tokenizer: Tokenizer, target: Target | None = None
    ):
        super().__init__(options, tokenizer)
        self.dataset = find_dataset(options)
        self.metric = METRICS[self.dataset.metrics[0]].key
        self.objective = TARGETS[self.dataset.target].objective
        self.use_class_weights(options.class_weights)
        if options.teacher and self.dataset.target != "classification":
            raise InputError(f"`teacher`={options.teacher}: needs one label per row")
        self._row_sets: dict[str, RowSet] = {"": RowSet(())}
        self._learned_target = target

    def use_class_weights(self, weights: str | Mapping[str, float] | None) -> None:
        """Weight the labels in the training loss; see `class_weights`.

        Raises:
            InputError: If the task does not have one label per row.
        """
        if weights is not None and self.dataset.target != "classification":
            raise InputError(f"`class_weights`={weights}: needs one label per row")
        self._class_weights = weights

    @property
    def title(self) -> str:
        kind = self.target.kind
        return "Multi-label classification" if kind == "multi_label" else kind.capitalize()

    @property
    def metric_names(self) -> tuple[str, ...]:
        keys = [*(METRICS[name].key for name in self.dataset.metrics), "eval_loss"]
        suffixes = [rows.suffix for rows in self.dataset.sets["eval"]] or [""]
        return tuple(f"{key}{suffix}" for suffix in suffixes for key in keys)

    def read(self, split: str) -> dict[str, list[Example]]:
        dataset = self.dataset
        if dataset.held_out and split in ("train", "eval"):
            examples = {"": self._train_and_held_out[split == "eval"]}
        else:
            if not dataset.sets[split]:
                raise InputError(dataset.missing[split])
            self._row_sets |= {rows.name: rows for rows in dataset.sets[split]}
            examples = {
                rows.name: read_examples(
                    dataset,
                    rows,
                    split != "predict" or None,
                    split == "train" and self.options.taught,
                )
                for rows in dataset.sets[split]
            }
        if split == "train":
            (train,) = examples.values()
            self._learned_target = self._learn_target(train)
        return examples

    @functools.cached_property
    def _train_and_held_out(self) -> tuple[list[Example], list[Example]]:
        if not self.dataset.sets["train"]:
            raise InputError(self.dataset.missing["train"])
        (rows,) = self.dataset.sets["train"]
        examples = read_examples(self.dataset, rows, True, self.options.taught)
        return hold_out(self.dataset, examples)

    def _learn_target(self, examples: list[Example]) -> Target:
        target = TARGETS[self.dataset.target].learn(self.dataset, examples)
        trained = self._trained_target()
        if trained is None:
            return target
        names, learned = ({*map(whole_number, each.labels)} for each in (trained, target))
        if (trained.kind, names) != (target.kind, learned):
            raise self._other_labels(trained)
        return type(target)(self.dataset, trained.labels, target.spread)

    @property
    def target(self) -> Target:
        """What the outputs mean: from the training rows, else of the model in `output_dir`."""
        if self._learned_target is None:
            folder = self.options.output_dir
            trained = self._trained_target()
            if trained is None:
                raise InputError(
                    f"`output_dir`={folder}: contains no trained classifier ({LABELS_FILE})"
                )
            if trained.kind != self.dataset.target:
                raise InputError(
                    f"`output_dir`={folder}: contains a model for {trained.kind}, not for "
                    f"{self.dataset.target}"
                )
            if set(self.dataset.labels or trained.labels) != set(trained.labels):
                raise self._other_labels(trained)
            self._learned_target = trained
        return self._learned_target

    def _saved_target(self) -> SavedTarget | None:
        path = f"{self.options.output_dir}/{KIND.settings_file}"
        return read_json(path, SavedTarget) if exists(path) else None

    def _trained_target(self) -> Target | None:
        options, pairs = self.options, self.dataset.pairs
        saved, labels = self._saved_target(), read_labels(f"{options.output_dir}/")
        # That it is for another target is reported first.
        if saved and saved.kind == self.dataset.target and saved.pairs not in (None, pairs):
            raise InputError(
                f"`output_dir`={options.output_dir}: contains a model for "
                f"{TEXTS[saved.pairs]}, not for {TEXTS[pairs]}"
            )
        if not (labels or options.do_train or (saved and saved.kind == "regression")):
            labels = labels_in(options.output_dir, KIND)
        return restore(self.dataset, saved, labels) if saved or labels else None

    def _other_labels(self, trained: Target) -> InputError:
        what = f"other labels ({', '.join(trained.labels[:10])})" if trained.labels else "numbers"
        return InputError(
            f"`output_dir`={self.options.output_dir}: contains a classifier of {what}"
        )

    def encode(self, split: str, examples: Sequence[Example]) -> Features:
        texts = [(example.text, example.text_pair) for example in examples]
        length = self.options.max_seq_length
        long_texts = self.options.long_texts
        make = functools.partial(featurize, examples, self.tokenizer, length, long_texts)
        features = self.cached(split, "text and pair", texts, Features, make)
        if split != "predict":
            labels = np.repeat(self.target.encode(examples), features.windows_per_text, axis=0)
            features.arrays[self.target.feature] = labels
        if split == "train":
            self._encode_training(features, examples, labels)
        return features

    def _encode_training(
        self, features: Features, examples: Sequence[Example], labels: np.ndarray
    ) -> None:
        """Add what only training reads."""
        probabilities = self.target.probabilities(examples)
        if probabilities is not None:
            repeated = np.repeat(probabilities, features.windows_per_text, axis=0)
            features.arrays["label_probabilities"] = repeated
        if self._class_weights is not None:
            weights = class_weights(self._class_weights, self.target.labels, labels)
            of_examples = np.where(labels >= 0, weights[labels], np.float32(1))
            features.arrays["example_weights"] = of_examples

    def taught_labels(self) -> Sequence[str]:
        if self.target.kind != "classification":
            raise InputError(f"`name`: is for {self.target.kind}; needs one label per row")
        return self.target.labels

    def log_probabilities(self, examples: ExampleSet, outputs: Outputs) -> list[np.ndarray]:
        saved, pairs = self._saved_target(), examples.examples[0].text_pair is not None
        if saved and saved.pairs not in (None, pairs):
            raise InputError(f"`name`: reads {TEXTS[saved.pairs]}, not {TEXTS[pairs]}")
        return [*log_softmax(outputs["logits"].astype(np.float64), axis=-1)[:, None]]

    def teacher_feature(
        self, features: Features, probabilities: Sequence[np.ndarray]
    ) -> np.ndarray:
        return np.repeat(np.concatenate(probabilities), features.windows_per_text, axis=0)

    def folds(self, examples: Sequence[Example]) -> list[Fold]:
        return fold_rows(self.dataset, examples) if self.dataset.folds else []

    def epoch_size(self, examples: ExampleSet) -> int:
        return len(examples.features)

    def per_example(self, examples: ExampleSet, outputs: Outputs) -> Outputs:
        features, long_texts = examples.features, self.options.long_texts
        return {"logits": combined(outputs["logits"], features, long_texts)}

    def _truth(self, examples: ExampleSet) -> np.ndarray:
        """Return the labels of the texts, as numbers."""
        features = examples.features
        return features.arrays[self.target.feature][features.first_windows]

    def texts(self, examples: Sequence[Example]) -> Iterator[str]:
        for example in examples:
            yield example.text
            yield example.text_pair or ""

    def build_model(self, config: AlbertConfig, dtype: str) -> AlbertForSequenceClassification:
        return AlbertForSequenceClassification(
            config, self.target.outputs, self.options.classifier_dropout, dtype=dtype
        )

    def flops_per_example(self, config: AlbertConfig) -> float:
        return classification_flops(config, self.options.max_seq_length, self.target.outputs)

    def data_name(self, examples: ExampleSet) -> str:
        dataset = self.dataset
        if dataset.folds:
            (rows,) = dataset.sets["train"]
            return f"{rows.file_names}, {dataset.folds} folds"
        if dataset.held_out:
            (rows,) = dataset.sets["train"]
            return f"{dataset.held_out:.0%} of {rows.file_names}, held out"
        (names,) = (s.file_names for s in dataset.sets["eval"] if s.name == examples.name)
        if not dataset.benchmark:
            return names
        title = filter(None, (dataset.benchmark, dataset.name, self.options.language))
        return f"{' '.join(dict.fromkeys(title))}, {names}"

    def adjacent_files(self) -> dict[str, str]:
        target, dataset = self.target, self.dataset
        saved = {
            "kind": target.kind,
            "task_name": dataset.name,
            "spread": target.spread,
            "pairs": dataset.pairs,
            "max_seq_length": self.options.max_seq_length,
            "long_texts": self.options.long_texts,
            "label_separator": dataset.label_separator,
            **dataset.record,
        }
        labels = {LABELS_FILE: labels_text(target.labels)} if target.labels else {}
        return {KIND.settings_file: json.dumps(saved) + "\n", **labels}

    def score(self, examples: ExampleSet, outputs: Outputs) -> dict[str, float]:
        truth, logits = self._truth(examples), outputs["logits"]
        scores = self.target.score(truth, logits)
        if self.dataset.grouped:
            groups = [each.id.rpartition("-")[0] for each in examples.examples]
            wrong = {groups[n] for n in np.flatnonzero(self.target.predicted(logits) != truth)}
            scores["eval_exact_match"] = 1 - len(wrong) / len(set(groups))
        suffix = self._row_sets[examples.name].suffix
        return {f"{name}{suffix}": value for name, value in scores.items()}

    def collapse(self, examples: ExampleSet, outputs: Outputs) -> str | None:
        if len(np.unique(self._truth(examples), axis=0)) < 2:
            return None
        return self.target.collapse(outputs["logits"])

    def baseline(self, examples: ExampleSet) -> Baseline:
        answer, logits = self.target.baseline(self._truth(examples))
        return Baseline(answer, self.score(examples, {"logits": logits}))

    def ensemble_settings(self) -> dict[str, Any]:
        saved = self._saved_target() or SavedTarget()
        kind, labels = self.target.kind, list(self.target.labels)
        return {"task": saved.task_name, "kind of labels": kind, "labels": labels}

    def average(self, examples: ExampleSet, outputs: Sequence[Outputs]) -> Outputs:
        return {"logits": self.target.average([each["logits"] for each in outputs])}

    def decode(self, examples: ExampleSet, outputs: Outputs) -> list[str]:
        """Return the label, and the probability of every label in the order of `labels.json`."""
        logits = outputs["logits"]
        rows = zip(self.target.decode(logits), self.target.values(logits), strict=True)
        return ["\t".join([label, *map(_short, values)]) for label, values in rows]

    def write_predictions(self, folder: str, examples: ExampleSet, outputs: Outputs) -> None:
        logits, rows = outputs["logits"], self._row_sets[examples.name]
        ids = [example.id for example in examples.examples]
        values = ("\t".join(map(_short, row)) for row in self.target.values(logits))
        write_text(f"{folder}/test_results{rows.suffix}.tsv", "".join(f"{v}\n" for v in values))
        path = f"{folder}/predictions{rows.suffix}.tsv"
        write_text(path, two_columns(("id", "label"), ids, self.target.decode(logits)))
        logger.info("%s predictions in %s", f"{len(ids):,}", path)
        if rows.submission and self.dataset.submitted:
            content = self.dataset.submitted(ids, self.target.submitted(logits))
            ending = os.path.splitext(rows.submission)[1]
            write_text(f"{folder}/submit_results{rows.suffix}{ending}", content)
            if self.options.submission:
                self.write_submission(folder, rows.submission, content)

    def answered(self, examples: ExampleSet) -> list[int]:
        rows = []
        for row, example in enumerate(examples.examples):
            if example.label is not None:
                with contextlib.suppress(InputError):  # a label that the model does not know
                    self.target.encode([example])
                    rows.append(row)
        # Of several labels, some rows may have none, but not all.
        return rows if any(examples.examples[row].label for row in rows) else []

    def score_at(self, examples: ExampleSet, outputs: Outputs, rows: list[int]) -> dict[str, float]:
        truth = self.target.encode([examples.examples[row] for row in rows])
        scores = self.target.score(truth, outputs["logits"][rows])
        suffix = self._row_sets[examples.name].suffix
        return {f"{name.removeprefix('eval_')}{suffix}": value for name, value in scores.items()}

    def report_sections(self, examples: ExampleSet, outputs: Outputs) -> list[Section]:
        labeled = self.target.feature in examples.features.arrays
        truth = self._truth(examples) if labeled else None
        suffix = self._row_sets[examples.name].suffix
        return self.target.report_sections(examples, truth, outputs["logits"], suffix)

    def parse_lines(self, lines: Sequence[str], first: int) -> list[Example]:
        has_pair = self.dataset.pairs
        examples = []
        for number, line in enumerate(lines, start=first):
            location = f"standard input, line {number}"
            fields = line.split("\t") if has_pair else [line]
            if has_pair and len(fields) != 2:
                raise InputError(
                    f"{location}: {counted(len(fields), 'text')}; must be a pair, separated by a "
                    "tab"
                )
            examples.append(Example(location, fields[0], fields[1] if has_pair else None, None))
        return examples


def _short(value: float) -> str:
    return f"{value:.8g}"

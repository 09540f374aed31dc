"""Classification of texts and pairs of texts."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, open_file, write_text
from albert_tf.finetuning.classification_report import (
    class_sections,
    guess_sections,
    intervals_of,
)
from albert_tf.finetuning.featurize import featurize
from albert_tf.finetuning.metrics import METRICS, score, softmax
from albert_tf.finetuning.options import ClassifierOptions
from albert_tf.finetuning.problem import ExampleSet, Problem
from albert_tf.finetuning.tasks import Example, create_task, label_ids, labels_of, read_examples
from albert_tf.flops import classification_flops
from albert_tf.interop.companions import LABELS_FILE
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.modeling.losses import ClassificationObjective
from albert_tf.report.sections import Section
from albert_tf.tokenization import Tokenizer


class Classification(Problem):
    """A class for each text, or pair of texts.

    Predictions are `test_results.tsv` (a row of probabilities per input row, in the order of
    `labels.json`) and `predictions.tsv` (row number and label).

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
        self.metric = f"eval_{self._task.metrics[0]}"
        self.objective = ClassificationObjective()
        examples = {split: read_examples(self._task, split) for split in options.splits()}
        self._labels = self._find_labels(examples.get("train"))
        self.sets = {
            split: [self._set(split, examples[split], tokenizer)] for split in options.splits()
        }

    def _find_labels(self, train_examples) -> tuple[str, ...]:
        """The labels of the training rows, or those that the model in the folder was trained on."""
        folder = self._options.output_dir
        path = f"{folder}/{LABELS_FILE}"
        if train_examples is None and not exists(path):
            raise InputError(f"--output_dir={folder}: holds no trained classifier ({LABELS_FILE})")
        there = None
        if exists(path):
            with open_file(path) as file:
                there = tuple(json.load(file))
        if train_examples is None:
            return there
        labels = labels_of(self._task, train_examples)
        if there not in (None, labels):
            raise InputError(
                f"--output_dir={folder}: holds a classifier of other labels "
                f"({', '.join(there[:10])})"
            )
        return labels

    def _set(self, split: str, examples, tokenizer: Tokenizer) -> ExampleSet:
        options = self._options
        cached_dir = options.cached_dir if split in options.splits() else None
        features = featurize(examples, tokenizer, options.max_seq_length, cached_dir)
        if split != "predict":
            ids = label_ids(examples, self._labels)
            features.arrays["label_ids"] = np.array(ids, np.int32)
        return ExampleSet("", features, examples)

    def create_model(self, config: AlbertConfig, dtype: str) -> AlbertForSequenceClassification:
        return AlbertForSequenceClassification(
            config, len(self._labels), self._options.classifier_dropout, dtype=dtype
        )

    def flops_per_example(self, config: AlbertConfig) -> float:
        return classification_flops(config, self._options.max_seq_length, len(self._labels))

    def description(self) -> dict[str, str]:
        return {LABELS_FILE: json.dumps(self._labels, ensure_ascii=False) + "\n"}

    def score(self, examples: ExampleSet, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        ids = examples.features.arrays["label_ids"]
        return score(self._task.metrics, ids, outputs["logits"])

    def write_predictions(
        self, folder: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> None:
        probabilities = softmax(outputs["logits"])
        rows = ("\t".join(f"{value:.8g}" for value in row) for row in probabilities)
        write_text(f"{folder}/test_results.tsv", "".join(f"{row}\n" for row in rows))
        guesses = probabilities.argmax(axis=-1)
        lines = (f"{row}\t{self._labels[guess]}" for row, guess in enumerate(guesses))
        write_text(f"{folder}/predictions.tsv", "\n".join(["id\tlabel", *lines]) + "\n")
        print(f"{len(guesses)} predictions in {folder}/predictions.tsv")

    def report(
        self, split: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> list[Section]:
        probabilities = softmax(outputs["logits"])
        if split == "predict":
            return guess_sections(self._labels, probabilities)
        ids = examples.features.arrays["label_ids"]
        statistics = {f"eval_{name}": METRICS[name] for name in self._task.metrics}
        texts = ["\n".join(filter(None, (each.text, each.text_pair))) for each in examples.examples]
        return class_sections(
            texts,
            self._labels,
            ids,
            probabilities,
            examples.features.example_lengths,
            intervals_of(statistics, ids, probabilities.argmax(axis=-1)),
        )

    def collapsed(self, outputs: dict[str, np.ndarray]) -> str | None:
        guesses = np.unique(outputs["logits"].argmax(axis=-1))
        if len(guesses) > 1 or len(outputs["logits"]) < 2:
            return None
        return f"every prediction is {self._labels[guesses[0]]!r}"

    def read_lines(self, lines: Sequence[str], first: int) -> ExampleSet:
        has_pair = self._task.text_pair_column is not None
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
        return self._set("predict", examples, self._tokenizer)

    def result_lines(self, examples: ExampleSet, outputs: dict[str, np.ndarray]) -> list[str]:
        """The label, and the probability of every label in the order of `labels.json`."""
        return [
            "\t".join([self._labels[row.argmax()], *(f"{value:.8g}" for value in row)])
            for row in softmax(outputs["logits"])
        ]

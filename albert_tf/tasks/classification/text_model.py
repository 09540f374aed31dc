"""Classifies raw strings, or predicts numbers."""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import ValueText, check_unicode, exists, read_json, text_of, value_of
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.interop.loading import Preset
from albert_tf.tasks.classification import KIND
from albert_tf.tasks.classification.datasets import Example, label_probabilities, normalized_label
from albert_tf.tasks.classification.estimator import Estimator
from albert_tf.tasks.classification.options import TEXTS, ClassificationOptions
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.targets import TARGETS, Target
from albert_tf.tasks.classification.task import ClassificationTask, SavedTarget
from albert_tf.text_models.fitting import SEED
from albert_tf.text_models.inputs import as_list, as_texts_or_pairs, check_same_length, shown_value
from albert_tf.text_models.task_model import TaskModel


class TextClassifier(Estimator):
    """Predicts one label, several labels or a number for texts or pairs of texts.

    Wherever a method takes `texts`, it takes a text, or a list, tuple, NumPy array or pandas Series
    of texts. For a task on pairs, every item is a tuple of two texts. So an example is always one
    item, and texts and labels can be split and shuffled together.

    A folder of run_classifier.py, of `save`, or of a converted classifier brings its labels. Other
    weights get a new head: for `labels`, or for those that `fit` finds.

    `from_preset` also takes `labels` of a new head, in the order of the probabilities, which also
    name the outputs of weights that only number them; `target`: "classification" (one label),
    "multi_label" (any number of labels) or "regression" (a number), by default as recorded next to
    the weights, else "classification"; the `seed` of a new head; and options of run_classifier.py:
    `max_seq_length`, `long_texts`, `albert_dropout`, `classifier_dropout`. Arguments of `fit`, such
    as `epochs`, become its defaults, so that it is an estimator of scikit-learn with parameters.

    Methods raise `InputError` if an argument is invalid, or if there is no head yet.

    Attributes:
        task: the `ClassificationTask` behind it; None until the labels are known.

    Example:
        >>> classifier = albert_tf.TextClassifier.from_preset(
        ...     "albert/albert-base-v2", labels=["negative", "positive"], max_seq_length=32
        ... )
        >>> texts = ["A fine film.", "Dull."]
        >>> classifier.predict_proba(texts).shape
        (2, 2)
        >>> sorted(classifier.evaluate(texts, ["positive", "negative"]))
        ['eval_accuracy', 'eval_loss', 'eval_macro_f1']
    """

    kind = KIND
    settings = (*TaskModel.settings, "long_texts")
    _options: ClassificationOptions

    # Whether it predicts for pairs (None: for either).
    _pairs: bool | None = None

    @classmethod
    def _from_preset(cls, preset, dtype, labels=None, *, target=None, seed=SEED, **settings):
        if target is not None and target not in TARGETS:
            raise InputError(f"`target`={target}: must be one of {', '.join(TARGETS)}")
        classifier = cls(preset, cls._options_of(preset, settings), dtype, seed)
        given = None if labels is None else classifier._labels_as_texts(labels)
        if cls._is_trained(preset):
            classifier._use_trained(given, target)
            return classifier
        known, kind = given or (), target
        if has_head := cls._has_head(preset):
            kind = target or preset.target(KIND)
        classifier._kind = kind = kind or "classification"
        if has_head and kind == "regression" and given:
            raise InputError(f"`labels`={given}: `target`=regression predicts numbers")
        if has_head and kind != "regression":
            known = tuple(preset.labels_of_outputs(given))
        if known or kind == "regression":
            dataset = find_dataset(classifier._task_options())
            classifier._use_target(TARGETS[kind](dataset, known))
        return classifier

    @classmethod
    def _is_trained(cls, preset: Preset) -> bool:
        files = (os.path.join(preset.folder, name) for name in (KIND.settings_file, LABELS_FILE))
        return cls._has_head(preset) and any(map(exists, files))

    def _use_trained(self, labels: tuple[str, ...] | None, target: str | None) -> None:
        """Use the task that the training folder records, which arguments may repeat."""
        path = os.path.join(self._preset.folder, KIND.settings_file)
        saved = read_json(path, SavedTarget) if exists(path) else None
        is_benchmark = self._options.task_name not in (None, "table")
        if saved and saved.pairs and not (is_benchmark or self._options.text_pair_column):
            self._options = dataclasses.replace(self._options, text_pair_column="text_pair")
        task = ClassificationTask(self._options, self.tokenizer)
        self._kind, self._pairs = task.target.kind, task.dataset.pairs
        for name, given, found in (
            ("target", target, self._kind),
            ("labels", labels, task.target.labels),
        ):
            if given not in (None, found):
                raise InputError(
                    f"`{name}`={given}: the model in {self._preset.name} was trained with {found}"
                )
        self._use_task(task)

    def _use_target(self, target: Target) -> None:
        self._use_task(ClassificationTask(self._task_options(), self.tokenizer, target))

    def _task_options(self) -> ClassificationOptions:
        return dataclasses.replace(
            self._options,
            regression=self._kind == "regression",
            multi_label=self._kind == "multi_label",
            text_pair_column="text_pair" if self._pairs else None,
        )

    @property
    def labels(self) -> list[Any]:
        """The labels in the order of the probabilities; empty for a model that predicts numbers."""
        return list(map(value_of, self._known_task().target.labels))

    def fit(
        self,
        texts: Any,
        labels: Any,
        validation_data: tuple[Any, Any] | None = None,
        class_weights: str | Mapping[Any, float] | None = None,
        **arguments: Any,
    ) -> keras.callbacks.History:
        """Train the classifier, as run_classifier.py does, with the `fit` of Keras.

            history = classifier.fit(texts, labels, epochs=3, validation_data=(more, their_labels))
            history.history["val_accuracy"]

        Batches, their order, the loss and, by default, the optimizer and its schedule are those of
        the command with the same settings. Every call is a run of its own, from the current
        weights.

        Args:
            texts: at least one.
            labels: of each text: a text or a number; for `target="multi_label"` a list of labels,
                which may be empty. A label that is not certain is a mapping from labels to
                probabilities, with a sum of 1, as the distribution to learn. A model without a
                head learns its labels here, and orders them.
            validation_data: texts and labels to evaluate after every epoch.
            class_weights: of the labels in the training loss: "balanced", which gives all labels
                the same total weight, or label -> weight, 1 for labels that it does not contain.
            **arguments: `epochs`, `batch_size`, ..., as described in `FitArguments`.

        Returns:
            Keras' `History`, with the loss and, except for numbers, the accuracy of every epoch.
        """
        columns = {"texts": texts, "labels": labels}
        arguments = self._with_defaults(arguments)
        examples, held_out = self._given(self._examples, columns, validation_data, arguments)
        if not self._is_trained(self._preset):
            self._learn(examples)
        target = self._known_task().target
        # Labels that were known as texts come back as the numbers that they are here.
        labels_of = (each.several_labels(",") for each in examples)
        typed: dict[str, str]
        typed = {n: n for names in labels_of for n in names if isinstance(n, ValueText)}
        typed |= {name: name for name in target.labels if isinstance(name, ValueText)}
        target.labels = tuple(typed.get(name, name) for name in target.labels)
        if class_weights is not None and not isinstance(class_weights, str):
            place = "`class_weights`"
            class_weights = {_label_text(n, place): weight for n, weight in class_weights.items()}
        self._known_task().use_class_weights(class_weights)
        return self._fit(examples, held_out, arguments)

    def _learn(self, examples: list[Example]) -> None:
        """Learn from the first training data what no training folder records."""
        self._pairs = examples[0].text_pair is not None
        dataset = find_dataset(self._task_options())
        known = () if self.task is None else self.task.target.labels
        target, learns = TARGETS[self._kind], self._kind == "regression" or not known
        self._use_target(target.learn(dataset, examples) if learns else target(dataset, known))

    def _metrics(self) -> Any:
        accuracy = TARGETS[self._kind].accuracy
        return [accuracy(name="accuracy")] if accuracy else None

    def predict(self, texts: Any, batch_size: int = 32) -> list[Any]:
        """Predict the label of every text, `batch_size` texts at a time.

        Returns:
            A label per text; a number per text for `target="regression"`, and a list of labels,
            those with a probability of at least 0.5, for `target="multi_label"`.
        """
        task = self._known_task()
        answers = task.target.answers(self._logits(texts, batch_size))
        if task.target.kind == "multi_label":
            return [list(map(value_of, labels)) for labels in answers]
        return list(map(value_of, answers))

    def predict_proba(self, texts: Any, batch_size: int = 32) -> np.ndarray:
        """Predict the probability of every label; arguments as for `predict`.

        Returns:
            float32 `[texts, labels]`, in the order of `labels`. The probabilities of a text add up
            to 1, except for `target="multi_label"`. A model that predicts numbers has none.
        """
        target = self._known_task().target
        if target.kind == "regression":
            raise InputError(f"`name`={self._preset.name}: predicts numbers, not probabilities")
        return target.values(self._logits(texts, batch_size)).astype(np.float32)

    def _predict_rows(self, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
        texts = columns["text"]
        if "text_pair" in columns:
            texts = list(zip(texts, columns["text_pair"], strict=True))
        target = self._known_task().target
        if target.kind == "regression":
            return [{"prediction": n} for n in self.predict(texts, batch_size=batch_size)]
        rows = self.predict_proba(texts, batch_size=batch_size)
        return [_result(row, target.labels, target.kind == "multi_label") for row in rows]

    @staticmethod
    def _predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
        pairs, trained_on_pairs = "text_pair" in columns, export.settings.get("pairs")
        if trained_on_pairs not in (None, pairs):
            raise InputError(
                f"`texts`: the model reads {TEXTS[trained_on_pairs]}, not {TEXTS[pairs]}"
            )
        results: list[dict[str, Any]] = []
        for outputs in export("pair" if pairs else "single", columns):
            if "value" in outputs:
                results += [{"prediction": value} for value in outputs["value"]]
                continue
            rows = zip(outputs["probabilities"], outputs["labels"], strict=True)
            for probabilities, labels in rows:
                names = [export.labels.get(n, n) for n in (each.decode() for each in labels)]
                results.append(_result(probabilities, names, "chosen" in outputs))
        return results

    def evaluate(self, texts: Any, labels: Any, batch_size: int = 32) -> dict[str, float]:
        """Compare predictions with the truth; arguments as for `fit` and `predict`.

        Returns:
            Results by name, such as `eval_accuracy`, as in `eval_results.txt`.
        """
        self._known_task()
        return self._score(self._examples(texts, labels), batch_size)

    def score(self, texts: Any, labels: Any) -> float:
        """Return what scikit-learn compares models by; arguments as for `evaluate`.

        Returns:
            The share of the texts whose label, or set of labels, is right; for numbers, the
            coefficient of determination R2.
        """
        from sklearn import metrics  # slow to load

        examples = self._examples(texts, labels)
        if not examples:
            raise InputError("`texts`: at least one is required to score")
        answers = self._known_task().target.answers(self._logits(texts, batch_size=32))
        if self._kind == "regression":
            return float(metrics.r2_score([each.number() for each in examples], answers))
        if self._kind == "multi_label":
            pairs = zip([each.several_labels(",") for each in examples], answers, strict=True)
            return float(np.mean([{*labels} == {*found} for labels, found in pairs]))
        return float(np.mean([each.likeliest_label for each in examples] == np.array(answers)))

    def _logits(self, texts: Any, batch_size: int) -> np.ndarray:
        """float32 `[texts, outputs]`."""
        examples = self._examples(texts)
        if not examples:
            return np.zeros((0, self._known_task().target.outputs), np.float32)
        return self._outputs(self._set("predict", examples), batch_size)["logits"]

    def _examples(self, texts: Any, labels: Any = None) -> list[Example]:
        rows = as_texts_or_pairs(texts, "texts")
        values: list[Any] = [None] * len(rows)
        if labels is not None:
            values = as_list(labels, "labels")
            check_same_length(rows, values, "labels", "texts")
            values = [self._label_of(value, f"`labels`[{n}]") for n, value in enumerate(values)]
        if rows and self._pairs not in (None, rows[0][1] is not None):
            raise InputError(
                f"`texts`: the model reads {TEXTS[self._pairs]}, not {TEXTS[not self._pairs]}"
            )
        return [
            Example(f"`labels`:{number}", text, pair, label)
            for number, ((text, pair), label) in enumerate(zip(rows, values, strict=True))
        ]

    def _label_of(self, value: Any, place: str) -> str | list[str] | dict[str, float]:
        if self._kind == "classification" and isinstance(value, Mapping):
            texts = {_label_text(label, place): each for label, each in value.items()}
            return label_probabilities(place, {n: _plain(each) for n, each in texts.items()})
        if self._kind != "multi_label":
            return _label_text(value, place)
        if not isinstance(value, list | tuple | set | frozenset):
            raise InputError(f"{place}: must be a list of labels, not {shown_value(value)}")
        return [_label_text(each, place) for each in value]

    def _labels_as_texts(self, labels: Any) -> tuple[str, ...]:
        values = as_list(labels, "labels")
        texts = tuple(_label_text(value, f"`labels`[{n}]") for n, value in enumerate(values))
        if len(set(texts)) < len(texts) or len(texts) < 1:
            raise InputError(f"`labels`={values}: must be distinct, and at least one")
        return texts


def _result(
    probabilities: Sequence[float], names: Sequence[str], multi_label: bool
) -> dict[str, Any]:
    labels = list(map(value_of, names))
    if len(set(map(type, labels))) > 1:  # columns of Parquet files have one type
        labels = list(names)
    chosen: Any = labels[int(np.argmax(probabilities))]
    if multi_label:
        chosen = [label for label, p in zip(labels, probabilities, strict=True) if p >= 0.5]
    return {"prediction": chosen, "probabilities": dict(zip(names, probabilities, strict=True))}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _label_text(value: Any, place: str) -> str:
    """Return the text of a label, which may be a number."""
    value = _plain(value)
    if not isinstance(value, str | bool | int | float):
        raise InputError(f"{place}: must be a text or a number, not {shown_value(value)}")
    if isinstance(value, str):
        check_unicode(value, place)
        if (name := normalized_label(value)) != value:
            raise InputError(f"{place}: is {value!r}; must be {name!r}, as labels are compared")
        return name
    if not math.isfinite(value):
        raise InputError(f"{place}: is {value}, no label")
    return text_of(value)

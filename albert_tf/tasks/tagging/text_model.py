"""Finds entities in raw texts, or tags their words."""

import numbers
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from albert_tf.errors import InputError
from albert_tf.files import exists
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM
from albert_tf.tasks.tagging import KIND
from albert_tf.tasks.tagging.options import TaggingOptions, TaggingSettings
from albert_tf.tasks.tagging.readers import (
    ReadOptions,
    Span,
    TaggedExample,
    TaggedRow,
    TaggedText,
    kind_of_tags,
    labels_of,
    tagged_text,
)
from albert_tf.tasks.tagging.tags import Entity
from albert_tf.tasks.tagging.task import TaggingTask
from albert_tf.text_models.fitting import SEED
from albert_tf.text_models.inputs import as_list, check_same_length, check_text, shown_value
from albert_tf.text_models.task_model import TaskModel


class TokenClassifier(TaskModel[TaggingTask]):
    """Finds the entities in texts, such as names, or tags their words.

        tagger = albert_tf.TokenClassifier.from_preset("albert/albert-base-v2")
        tagger.fit(["Anna lives in Paris."], [[(0, 4, "PER"), (14, 19, "LOC")]], epochs=3)
        tagger.predict(["Bob moved to Rome."])
        # [[Entity(label='PER', start=0, end=3, text='Bob', score=...), ...]]

    Wherever a method takes `texts`, it takes a list, tuple, NumPy array or pandas Series of texts,
    or of lists of words. Words are read as joined by single spaces, which is the text that the
    characters of their entities refer to.

    A folder of run_tagger.py, of `save`, or of a converted tagger brings its tags. Other weights
    get a new head: for `labels`, or for the tags that `fit` finds. `from_preset` also takes
    `labels`: tags of a new head, in the order of its outputs, such as `["O", "B-PER", "I-PER"]`,
    which also name those of weights that only number them; the `seed` of a new head; and options of
    run_tagger.py: `max_seq_length`, `tag_scheme`, `albert_dropout`, `classifier_dropout`.

    Methods raise `InputError` if an argument is invalid, or if there is no head yet.

    Attributes:
        task: the `TaggingTask` behind it; None until the tags are known.

    Example:
        >>> tagger = albert_tf.TokenClassifier.from_preset(
        ...     "albert/albert-base-v2", labels=["O", "B-PER", "I-PER"]
        ... )
        >>> text = "Anna lives in Paris."
        >>> entities = tagger.predict([text])[0]
        >>> all(text[entity.start : entity.end] == entity.text for entity in entities)
        True
    """

    kind = KIND
    settings = (*TaskModel.settings, "tag_scheme")
    _options: TaggingOptions

    # Whether `fit` may still choose the unit: words, or raw texts.
    _is_new = False

    @classmethod
    def _from_preset(cls, preset, dtype, labels=None, *, seed=SEED, **settings):
        # The command requires files of its splits. These are not read.
        files = {"train_file": STANDARD_STREAM, "predict_file": STANDARD_STREAM}
        tagger = cls(preset, cls._options_of(preset, settings, **files), dtype, seed)
        given = None if labels is None else _checked_labels(labels)
        has_head = cls._has_head(preset)
        if has_head and exists(os.path.join(preset.folder, KIND.settings_file)):
            task = TaggingTask(tagger._options, tagger.tokenizer)
            if given not in (None, task.labels):
                raise InputError(
                    f"`labels`={given}: the model in {preset.name} was trained with {task.labels}"
                )
            tagger._use_task(task)
            return tagger
        tagger._is_new = not has_head
        if found := preset.labels_of_outputs(given) if has_head else given:
            tagger._use(TaggingSettings(), found)
        return tagger

    def _use(self, settings: TaggingSettings, labels: list[str]) -> None:
        """Use a task that no training folder records."""
        self._use_task(TaggingTask(self._options, self.tokenizer, (settings, labels)))

    @property
    def labels(self) -> list[str]:
        """The tags, in the order of the model's outputs."""
        return list(self._known_task().labels)

    def predict(self, texts: Any, batch_size: int = 32) -> list[list[Entity]]:
        """Find the entities in texts, or in a single one, as run_tagger.py does.

        `batch_size` windows of texts are computed at a time.

        Returns:
            For each text its entities, in order, with `label`, `start` and `end` (characters of
            the text), `text`, and `score`, the mean probability of the tags of its words. Of a
            model of plain tags, every word with its tag as `label`.
        """
        task, examples = self._known_task(), self._examples(_tagged_texts(texts))
        if not examples:
            return []
        encoded = self._set("predict", examples)
        predicted = task.predict(encoded, self._outputs(encoded, batch_size))
        if task.finds_entities:
            return task.entities(encoded, predicted)
        return [
            [
                Entity(tag, start, end, example.source.text[start:end], float(score))
                for (start, end), tag, score in zip(example.words, *tags, strict=True)
            ]
            for example, tags in zip(examples, predicted, strict=True)
        ]

    def _predict_rows(self, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
        rows = self.predict(columns["text"], batch_size=batch_size)
        return [{"entities": [_result(*each) for each in entities]} for entities in rows]

    @staticmethod
    def _predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
        results = []
        for outputs in export("serving_default", columns):
            names = ("label", "start", "end", "text", "score")
            for row in zip(*(outputs[name] for name in names), strict=True):
                entities = [
                    _result(label.decode(), int(start), int(end), text.decode(), score)
                    for label, start, end, text, score in zip(*row, strict=True)
                    if start >= 0
                ]
                results.append({"entities": entities})
        return results

    def evaluate(self, texts: Any, entities: Any, batch_size: int = 32) -> dict[str, float]:
        """Compare predictions with the truth; arguments as for `fit` and `predict`.

        Returns:
            Results by name, such as `eval_f1` of entities (as of seqeval), as in
            `eval_results.txt`.
        """
        self._known_task()
        return self._score(self._labeled_examples(_tagged_texts(texts, entities)), batch_size)

    def fit(
        self,
        texts: Any,
        entities: Any,
        validation_data: tuple[Any, Any] | None = None,
        **arguments: Any,
    ) -> keras.callbacks.History:
        """Train the model, as run_tagger.py does, with the `fit` of Keras.

        Args:
            texts: at least one.
            entities: of each text, a list of `(start, end, label)` in characters of the text; or of
                each list of words, their tags, such as `["B-PER", "O", "O", "B-LOC"]`. An entity
                that overlaps an earlier one cannot be learned and is left out.
            validation_data: texts and entities; their loss is computed after every epoch.
            **arguments: `epochs`, `batch_size`, ..., as described in `FitArguments`.

        Returns:
            Keras' `History`, with the loss of every epoch.
        """
        columns = {"texts": texts, "entities": entities}
        tagged, held_out = self._given(_tagged_texts, columns, validation_data, arguments)
        if self._is_new:
            scheme = self._options.tag_scheme
            kind = (self.task and self.task.settings.tags) or kind_of_tags(tagged, scheme)
            labels = labels_of(tagged, kind) if self.task is None else self.labels
            self._use(TaggingSettings(unit=tagged[0].unit, tags=kind), labels)  # type: ignore[arg-type]
            self._is_new = False
        validation = None if held_out is None else self._labeled_examples(held_out)
        return self._fit(self._labeled_examples(tagged), validation, arguments)

    def _examples(self, texts: Sequence[TaggedText]) -> list[TaggedExample]:
        return list(map(self._known_task().example, texts))

    def _labeled_examples(self, texts: Sequence[TaggedText]) -> list[TaggedExample]:
        """Return examples whose tags are all known to the model."""
        examples = self._examples(texts)
        for example in examples:
            place = example.source.location
            if example.tags is None:
                kind = "words with their tags" if not self._known_task().finds_entities else "tags"
                raise InputError(f"{place}: the model needs {kind} such as {self.labels[:3]}")
            if unknown := set(example.tags).difference(self.labels):
                raise InputError(
                    f"{place}: tag {min(unknown)!r}: must be one of {', '.join(self.labels)}"
                )
        return examples


def _checked_labels(labels: Any) -> list[str]:
    values = as_list(labels, "labels")
    for number, label in enumerate(values):
        check_text(label, f"`labels`[{number}]")
    if len(set(values)) < max(len(values), 1):
        raise InputError(f"`labels`={values}: must be distinct, and at least one")
    return values


def _tagged_texts(texts: Any, entities: Any = None) -> list[TaggedText]:
    items = [texts] if isinstance(texts, str) else as_list(texts, "texts")
    if entities is None:
        return [_tagged_text(number, item) for number, item in enumerate(items)]
    given = as_list(entities, "entities")
    check_same_length(items, given, "entities", "texts")
    pairs = zip(items, given, strict=True)
    tagged = [_tagged_text(number, *pair) for number, pair in enumerate(pairs)]
    if len({text.unit for text in tagged}) > 1:
        raise InputError("`texts`: must be all texts or all lists of words")
    return tagged


def _tagged_text(number: int, item: Any, labels: Any = None) -> TaggedText:
    place, place_of_labels = f"`texts`[{number}]", f"`entities`[{number}]"
    location = place if labels is None else place_of_labels
    given = None if labels is None else _items(location, labels)
    if isinstance(item, str):
        check_text(item, place)
        spans = None if given is None else [_span(location, each) for each in given]
        row = TaggedRow(text=item, entities=spans)
    else:
        row = TaggedRow(tokens=_items(place, item), tags=given)
        for where, values in ((place, row.tokens), (location, given)):
            for value in values or ():
                check_text(value, where)
    return tagged_text(location, number, row, ReadOptions(labeled=given is not None))


def _items(place: str, value: Any) -> list[Any]:
    if not hasattr(value, "tolist") and not isinstance(value, tuple | list):
        raise InputError(f"{place}: must be a list, not {shown_value(value)}")
    return as_list(value, place)


def _span(place: str, value: Any) -> Span:
    if isinstance(value, Entity):
        value = (value.start, value.end, value.label)
    is_triple = isinstance(value, tuple | list) and len(value) == 3
    if not is_triple or not all(isinstance(each, numbers.Integral) for each in value[:2]):
        raise InputError(f"{place}: must be (start, end, label), not {shown_value(value)}")
    check_text(value[2], place)
    return Span(int(value[0]), int(value[1]), value[2])


def _result(label: str, start: int, end: int, text: str, score: float) -> dict[str, Any]:
    return {"label": label, "start": start, "end": end, "text": text, "score": score}

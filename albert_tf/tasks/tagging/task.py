"""Tags the words of texts: named entities, chunks, parts of speech."""

import collections
import dataclasses
import functools
import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal, cast

import numpy as np
from scipy.special import log_softmax

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, read_json, shown, to_json, write_text
from albert_tf.finetuning.task import (
    Baseline,
    ExampleSet,
    FineTuningTask,
    Outputs,
    mean_log_probabilities,
)
from albert_tf.flops import token_classification_flops
from albert_tf.input.examples import Features
from albert_tf.interop.adjacent_files import find_adjacent_files
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.interop.loading import labels_in
from albert_tf.logs import counted
from albert_tf.modeling.heads import AlbertForTokenClassification
from albert_tf.modeling.losses import NO_LABEL, TokenClassificationObjective
from albert_tf.report.sections import Section
from albert_tf.tasks.tagging import KIND
from albert_tf.tasks.tagging.options import TaggingOptions, TaggingSettings, TagSet
from albert_tf.tasks.tagging.readers import (
    ReadOptions,
    TaggedExample,
    TaggedText,
    as_example,
    cluener_line,
    conll_lines,
    kind_of_tags,
    labels_of,
    read_tagged,
)
from albert_tf.tasks.tagging.report import entity_sections, predicted_section, tag_sections
from albert_tf.tasks.tagging.tags import (
    ENTITY_TAGS,
    OUTSIDE,
    Entity,
    chunks,
    count_matches,
    invalid_tags,
    kind_of,
)
from albert_tf.tasks.tagging.windows import (
    TEXT,
    TagWindows,
    WordTags,
    encoded_form,
    make_windows,
    predict_tags,
    raw_words,
)
from albert_tf.tokenizers import Tokenizer

logger = logging.getLogger(__name__)


class TaggingTask(FineTuningTask):
    """Predicts a tag for each word, and the entities that these tags mean.

    Predictions are `predictions.jsonl` (texts with their entities) and `predictions.conll` (words
    with their tags); `predict_results.txt` contains the scores of texts whose tags are known.

    Args:
        target: the settings and the tags of the model; by default, they are learned from the
            training file, or read from `output_dir`.
    """

    options: TaggingOptions
    averages_tokens = True
    title = "Tagging"
    reads_standard_input = True

    def __init__(
        self,
        options: TaggingOptions,
        tokenizer: Tokenizer,
        target: tuple[TaggingSettings, list[str]] | None = None,
    ):
        super().__init__(options, tokenizer)
        self.objective = TokenClassificationObjective()
        self._texts = {split: self._read_files(split) for split in options.splits()}
        settings, self.labels = target or self._target()
        tags = settings.tags or kind_of(self.labels, options.tag_scheme)[0]
        self.settings = dataclasses.replace(settings, tags=tags)
        self.metric = "eval_f1" if self.finds_entities else "eval_accuracy"

    @property
    def finds_entities(self) -> bool:
        return self.settings.tags == ENTITY_TAGS

    @property
    def metric_names(self) -> tuple[str, ...]:
        entities = ("eval_f1", "eval_precision", "eval_recall") if self.finds_entities else ()
        return (*entities, "eval_accuracy", "eval_loss")

    def _read_files(self, split: str) -> list[TaggedText]:
        options, tag_set = self.options, self.options.tag_set or TagSet({})
        read = ReadOptions(
            *(tag_set.columns or (options.word_column, options.tag_column)),
            options.tag_names or tag_set.tag_names,
            labeled=split == "eval" or (split == "train" and not options.taught),
            prefix=f"{options.language}:",
        )
        return [text for path in options.split_files(split) for text in read_tagged(path, read)]

    def _target(self) -> tuple[TaggingSettings, list[str]]:
        """Return what is learned from the training file, or recorded in `output_dir`."""
        folder = self.options.output_dir
        path = f"{folder}/{KIND.settings_file}"
        trained_labels = list(find_adjacent_files(folder).labels) if exists(path) else []
        if not self.options.do_train:
            if not (trained_labels := trained_labels or list(labels_in(folder, KIND))):
                raise InputError(f"`output_dir`={folder}: contains no trained tagger")
            settings = read_json(path, TaggingSettings) if exists(path) else TaggingSettings()
            return settings, trained_labels
        texts = self._texts["train"]
        kind = kind_of_tags(texts, self.options.tag_scheme)
        labels = labels_of(texts, kind)
        if trained_labels and trained_labels != labels:
            raise InputError(
                f"`output_dir`={folder}: contains a model with the tags "
                f"{shown(trained_labels)}, but the training file has {shown(labels)}"
            )
        unit: Literal["words", "text"] = "text" if texts[0].unit == TEXT else "words"
        return TaggingSettings(unit=unit, tags=kind), labels

    def read(self, split: str) -> dict[str, list[TaggedExample]]:
        texts = self._texts[split]
        examples = list(map(self.example, texts))
        words = sum(len(example.words) for example in examples)
        logger.info("%s: %s, %s", split, counted(len(texts), "text"), counted(words, "word"))
        if self.finds_entities:
            self._report_entities(split, examples)
        return {"": examples}

    def example(self, text: TaggedText) -> TaggedExample:
        """Return a text with its words, as the model reads them."""
        words = raw_words(text.text, self.settings.unit) if text.words is None else text.words
        return as_example(text, words, self.finds_entities)

    def _report_entities(self, split: str, examples: Sequence[TaggedExample]) -> None:
        if tagged := [example.source.tags for example in examples if example.source.tags]:
            scheme, invalid = invalid_tags(tagged)
            repaired = f"; {invalid:,} invalid tags, read as seqeval does" if invalid else ""
            logger.info("%s: tags in %s%s", split, scheme, repaired)
        widened = overlapping = 0
        unknown: collections.Counter[str] = collections.Counter()
        known = {label[2:] for label in self.labels}
        for _, spans, tags, entities in examples:
            if tags is None or entities is None:
                continue
            expressed = {(label, spans[i][0], spans[j - 1][1]) for label, i, j in chunks(tags)}
            overlapping += len(entities) - len(expressed)
            widened += len(expressed - {entity.key for entity in entities})
            unknown.update(each.label for each in entities if each.label not in known)
        types = ", ".join(sorted(unknown))
        for count, what in (
            (widened, "begin or end within a word and are widened to whole words"),
            (overlapping, "overlap another one and cannot be predicted"),
            (unknown.total(), f"are of types that the model does not know: {types}"),
        ):
            if count:
                logger.warning("%s: %s entities %s", split, f"{count:,}", what)

    def encode(self, split: str, examples: Sequence[TaggedExample]) -> Features:
        texts = [encoded_form(e.source.text, e.words, self.settings.unit) for e in examples]
        length = self.options.max_seq_length
        make = functools.partial(make_windows, texts, self.tokenizer, length)
        windows = self.cached(split, "tagging", texts, TagWindows, make)
        if split != "predict":
            windows.label(self._label_ids(examples), length)
        return windows

    def _label_ids(self, examples: Sequence[TaggedExample]) -> list[int]:
        ids = {label: number for number, label in enumerate(self.labels)}
        return [
            ids.get(tag, NO_LABEL)
            for example in examples
            for tag in example.tags or [""] * len(example.words)
        ]

    def taught_labels(self) -> Sequence[str]:
        return self.labels

    def log_probabilities(self, examples: ExampleSet, outputs: Outputs) -> list[np.ndarray]:
        windows = cast(TagWindows, examples.features)
        of_words = log_softmax(windows.of_words(outputs["logits"]).astype(np.float64), axis=-1)
        return np.split(of_words, np.cumsum(windows.counts)[:-1])

    def teacher_feature(
        self, features: Features, probabilities: Sequence[np.ndarray]
    ) -> np.ndarray:
        windows = cast(TagWindows, features)
        return windows.at_words(np.concatenate(probabilities), self.options.max_seq_length, 0)

    def texts(self, examples: Sequence[TaggedExample]) -> Iterator[str]:
        return (example.source.text for example in examples)

    def build_model(self, config: AlbertConfig, dtype: str) -> AlbertForTokenClassification:
        return AlbertForTokenClassification(
            config, len(self.labels), self.options.classifier_dropout, dtype=dtype
        )

    def flops_per_example(self, config: AlbertConfig) -> float:
        return token_classification_flops(config, self.options.max_seq_length, len(self.labels))

    def data_name(self, examples: ExampleSet) -> str:
        name = os.path.basename(self.options.split_files(examples.split)[0])
        title = " ".join(filter(None, (self.options.task_name, self.options.language)))
        return f"{title}, {name}" if title else name

    def recorded_options(self) -> dict[str, Any]:
        own = {"unit": self.settings.unit, "tags": self.settings.tags}
        return super().recorded_options() | own

    def adjacent_files(self) -> dict[str, str]:
        labels = json.dumps(self.labels, ensure_ascii=False)
        return super().adjacent_files() | {LABELS_FILE: labels + "\n"}

    def predict(self, examples: ExampleSet, outputs: Outputs) -> list[WordTags]:
        """Return the tags of the words of each text."""
        windows = cast(TagWindows, examples.features)
        return predict_tags(windows, outputs["logits"], self.labels)

    def entities(self, examples: ExampleSet, tags: Sequence[WordTags]) -> list[list[Entity]]:
        """Return the entities that predicted tags mean."""
        return [
            predicted.entities(example.source.text, example.words)
            for example, predicted in zip(examples.examples, tags, strict=True)
        ]

    def score(self, examples: ExampleSet, outputs: Outputs) -> dict[str, float]:
        """Precision, recall and F1 of entities, as seqeval; accuracy of tags; and the loss."""
        scores = self._scores(examples, self.predict(examples, outputs))
        windows = cast(TagWindows, examples.features)
        own = windows.places[:, 0] >= 0
        ids = np.array(self._label_ids(examples.examples))
        counted = own & (ids != NO_LABEL)
        logits = windows.of_words(outputs["logits"]).astype(np.float64)[counted]
        losses = -log_softmax(logits, axis=-1)[np.arange(len(logits)), ids[counted]]
        scores["loss"] = float(losses.mean()) if len(losses) else 0.0
        return {f"eval_{name}": value for name, value in scores.items()}

    def _scores(self, examples: ExampleSet, tags: Sequence[WordTags]) -> dict[str, float]:
        pairs = zip(examples.examples, tags, strict=True)
        correct = [
            tag == predicted
            for example, found in pairs
            for tag, predicted in zip(example.tags, found.tags, strict=True)
        ]
        scores = {"accuracy": float(np.mean(correct)) if correct else 0.0}
        if self.finds_entities:
            truth = [example.entities for example in examples.examples]
            counts = count_matches(truth, self.entities(examples, tags))[""]
            scores |= {"f1": counts.f1, "precision": counts.precision, "recall": counts.recall}
        return scores

    def baseline(self, examples: ExampleSet) -> Baseline:
        tags = [tag for example in examples.examples for tag in example.tags]
        most_common = collections.Counter(tags).most_common(1)
        answer = OUTSIDE if self.finds_entities else most_common[0][0]
        counts = [len(example.words) for example in examples.examples]
        constant = [WordTags([answer] * count, np.ones(count)) for count in counts]
        scores = self._scores(examples, constant)
        return Baseline(f"always {answer}", {f"eval_{n}": value for n, value in scores.items()})

    def collapse(self, examples: ExampleSet, outputs: Outputs) -> str | None:
        """Describe a model that gives every word the same tag."""
        if len({tag for example in examples.examples for tag in example.tags}) < 2:
            return None
        tags = {tag for found in self.predict(examples, outputs) for tag in found.tags}
        return f"every predicted tag is {tags.pop()!r}" if len(tags) == 1 else None

    def decode(self, examples: ExampleSet, outputs: Outputs) -> list[str]:
        """Return a JSON object for each text, as in `predictions.jsonl`."""
        tags = self.predict(examples, outputs)
        entities = self.entities(examples, tags) if self.finds_entities else [[] for _ in tags]
        lines = []
        for example, predicted, found in zip(examples.examples, tags, entities, strict=True):
            result: dict[str, object] = {"id": example.source.id, "text": example.source.text}
            if self.finds_entities:
                result["entities"] = [
                    {**each._asdict(), "score": float(f"{each.score:.6g}")} for each in found
                ]
            else:
                result |= {"words": example.shown_words, "tags": predicted.tags}
            lines.append(to_json(result, ensure_ascii=False))
        return lines

    def ensemble_settings(self) -> dict[str, Any]:
        settings = self.settings
        return {"labels": self.labels, "tags": settings.tags, "unit": settings.unit}

    def average(self, examples: ExampleSet, outputs: Sequence[Outputs]) -> Outputs:
        return {"logits": mean_log_probabilities([each["logits"] for each in outputs])}

    def write_predictions(self, folder: str, examples: ExampleSet, outputs: Outputs) -> None:
        lines = self.decode(examples, outputs)
        write_text(f"{folder}/predictions.jsonl", "".join(f"{line}\n" for line in lines))
        logger.info("%s predictions in %s/predictions.jsonl", f"{len(lines):,}", folder)
        tags = self.predict(examples, outputs)
        labeled = all(example.tags is not None for example in examples.examples)
        sentences = [
            conll_lines(e.shown_words, *([e.tags] if labeled else []), found.tags)
            for e, found in zip(examples.examples, tags, strict=True)
        ]
        write_text(f"{folder}/predictions.conll", "\n".join(sentences))
        if self.options.submission:
            assert (tag_set := self.options.tag_set) is not None, "checked"
            found = zip(examples.examples, self.entities(examples, tags), strict=True)
            content = "".join(f"{cluener_line(each.source.id, its)}\n" for each, its in found)
            self.write_submission(folder, tag_set.submission, content)

    def answered(self, examples: ExampleSet) -> list[int]:
        return [n for n, each in enumerate(examples.examples) if each.tags is not None]

    def score_at(self, examples: ExampleSet, outputs: Outputs, rows: list[int]) -> dict[str, float]:
        tags = self.predict(examples, outputs)
        known = dataclasses.replace(examples, examples=[examples.examples[row] for row in rows])
        return self._scores(known, [tags[row] for row in rows])

    def report_sections(self, examples: ExampleSet, outputs: Outputs) -> list[Section]:
        tags = self.predict(examples, outputs)
        known = all(example.tags is not None for example in examples.examples)
        texts = [example.source.text for example in examples.examples]
        if examples.split == "predict" or not known:
            return [predicted_section(tags)]
        if self.finds_entities:
            truth = [example.entities for example in examples.examples]
            return entity_sections(texts, truth, self.entities(examples, tags))
        truth_tags = [example.tags for example in examples.examples]
        return tag_sections([each.shown_words for each in examples.examples], truth_tags, tags)

    def parse_lines(self, lines: Sequence[str], first: int) -> list[TaggedExample]:
        return [
            self.example(TaggedText(f"line {number}", number - 1, line))  # as in a file
            for number, line in enumerate(lines, start=first)
        ]

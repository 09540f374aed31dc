"""A tagger that takes strings."""

from typing import NamedTuple

import tensorflow as tf

from albert_tf.export.graph_characters import lower_bound
from albert_tf.export.graph_packing import slices
from albert_tf.export.task_export import TEXTS, TaskExport, TrainedModel
from albert_tf.tasks.tagging.graph import (
    EncodedWords,
    RawWords,
    TagWindows,
    WordSplitter,
    make_windows,
    running_max,
)
from albert_tf.tasks.tagging.options import TaggingSettings
from albert_tf.tasks.tagging.tags import OUTSIDE, PLAIN_TAGS, continued, kind_of, split_tag


class _Spans(NamedTuple):
    """What is found in the texts, text by text.

    Attributes:
        first, last: int64 `[spans]`, the first and the last word of each.
        label: strings `[spans]`.
        score: float64 `[spans]`.
    """

    first: tf.Tensor
    last: tf.Tensor
    label: tf.Tensor
    score: tf.Tensor


class TaggingExport(TaskExport):
    """Predicts the same entities of raw texts as `run_tagger.py`, or tags of their words."""

    settings_class = TaggingSettings
    _settings: TaggingSettings

    def __init__(self, trained: TrainedModel, files: list[str]):
        super().__init__(trained, files)
        settings, labels = self._settings, trained.labels
        # Nothing is recorded of weights that were converted from another library.
        self._is_plain = PLAIN_TAGS in (settings.tags, kind_of(labels)[0])
        self._split = WordSplitter(joined=settings.unit == "words")
        self._has_outside = OUTSIDE in labels
        # A tag that a word may have: one of the model, one that continues it, or none.
        self._tags = [*labels, *map(continued, labels), OUTSIDE]
        parts = [split_tag(tag) or (OUTSIDE, "_") for tag in self._tags]
        self._types = sorted({type_ for _, type_ in parts})
        self._type_of = tf.constant([self._types.index(type_) for _, type_ in parts], tf.int64)
        self._begins, self._continues, self._is_entity = (
            tf.constant([prefix in among for prefix, _ in parts]) for among in ("BI", "IE", "BIES")
        )

    @classmethod
    def example(cls, settings: TaggingSettings) -> str:
        return 'text=tf.constant(["Anna lives in Paris."])'

    def signatures(self) -> dict:
        """Return the signatures by name.

        `serving_default` takes `text` `[batch]`. All of its outputs are `[batch, entities]`, with
        as many columns as the text with most entities has: `label`; `start` and `end`, int32, the
        range of characters in the text; `text`; and `score`, the mean probability of the tags of
        its words. The rest of a row is "", -1 and 0. If tags are plain, there is a column for every
        word instead.
        """

        @tf.function(autograph=False, input_signature=[TEXTS])
        def serving_default(text):
            return self._answered(text)

        return {"serving_default": serving_default}

    def _answers(self, texts):
        length = self._settings.max_seq_length
        assert length is not None  # task_settings() sets it
        words = self._split(texts)
        start, end = words.spans()
        read, read_start, read_end = texts, start, end
        if self._settings.unit == "words":
            read, read_start, read_end = words.joined()
        ids = self.tokenizer.encode_with_offsets(read)
        windows = make_windows(
            EncodedWords(*ids, words.rows, read_start, read_end), self._symbols, length
        )
        logits = self._in_batches(windows.features, ["logits"])["logits"]
        logits = tf.ensure_shape(logits, [None, None, self._model.num_labels])
        tags, scores = self._word_tags(words, windows, logits)
        if self._is_plain:
            number = tf.range(tf.size(tags, tf.int64))
            spans = _Spans(number, number, tf.gather(tf.constant(self._tags), tags), scores)
        else:
            spans = self._entities(words.rows, tags, scores)

        rows = tf.gather(words.rows, spans.first)
        start, end = tf.gather(start, spans.first), tf.gather(end, spans.last)
        characters = tf.strings.unicode_decode(texts, "UTF-8")
        covered = slices(characters, rows, start, end - start)

        def padded(values, nothing):
            ragged = tf.RaggedTensor.from_value_rowids(
                values, rows, nrows=words.text.count, validate=False
            )
            return ragged.to_tensor(nothing)

        return {
            "label": padded(spans.label, ""),
            "start": padded(tf.cast(start, tf.int32), -1),
            "end": padded(tf.cast(end, tf.int32), -1),
            "text": padded(tf.strings.unicode_encode(covered, "UTF-8"), ""),
            "score": padded(tf.cast(spans.score, tf.float32), 0.0),
        }

    def _word_tags(self, words: RawWords, windows: TagWindows, logits: tf.Tensor):
        """Return the tag of each word, an index of `self._tags`, and its probability.

        A word without a token of its own has the probability of the word before it and continues
        its tag. If there is no word before it, `[CLS]` is read.
        """
        rows, number = words.rows, tf.range(tf.size(words.first, tf.int64))
        first_in_row = tf.cast(lower_bound(rows, rows), tf.int64)
        read = running_max(tf.where(windows.own, number, -1))
        follows = read >= first_in_row  # a word of its text that has a token
        read = tf.maximum(read, 0)
        row = tf.where(follows, tf.gather(tf.pad(windows.row, [[0, 1]]), read), windows.first(rows))
        position = tf.where(follows, tf.gather(tf.pad(windows.position, [[0, 1]]), read), 0)
        of_words = tf.gather_nd(logits, tf.stack([row, position], axis=1))
        probabilities = tf.nn.softmax(tf.cast(of_words, tf.float64))
        tag = tf.argmax(probabilities, axis=-1)
        outside = len(self._tags) - 1
        is_new = windows.own | (number == first_in_row)
        tag = tf.where(is_new, tag, tag + outside // 2)
        if self._has_outside:
            tag = tf.where(follows, tag, outside)
        return tag, tf.reduce_max(probabilities, axis=-1)

    def _entities(self, rows: tf.Tensor, tags: tf.Tensor, scores: tf.Tensor) -> _Spans:
        """Return the entities, as `chunks` of `albert_tf.tasks.tagging.tags` does."""
        types = tf.gather(self._type_of, tags)
        same = (types[1:] == types[:-1]) & (rows[1:] == rows[:-1])
        continues = tf.gather(self._continues, tags[1:]) & tf.gather(self._begins, tags[:-1]) & same
        continues = tf.concat([[False], continues], 0)[: tf.size(tags)]
        inside = tf.where(tf.gather(self._is_entity, tags))[:, 0]
        begins = tf.boolean_mask(~continues, tf.gather(self._is_entity, tags))
        entity = tf.cumsum(tf.cast(begins, tf.int64)) - 1
        first = tf.boolean_mask(inside, begins)
        last = tf.math.segment_max(inside, entity)
        score = tf.math.segment_mean(tf.gather(scores, inside), entity)
        label = tf.gather(tf.constant(self._types), tf.gather(types, first))
        return _Spans(first, last, label, score)

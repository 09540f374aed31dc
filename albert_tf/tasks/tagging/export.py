"""A tagger that takes strings.

Words and windows inside a TensorFlow graph: the counterpart of `albert_tf.tokenizers.words` and
`albert_tf.tasks.tagging.windows`.
"""

import functools
import re
import string
from typing import NamedTuple

import tensorflow as tf

from albert_tf.export import graph_characters
from albert_tf.export.graph_characters import Characters, lower_bound
from albert_tf.export.graph_packing import Symbols, packed, slices, windows
from albert_tf.export.task_export import TaskExport, TrainedModel
from albert_tf.tasks.tagging.options import TaggingSettings
from albert_tf.tasks.tagging.tags import OUTSIDE, PLAIN_TAGS, continued, kind_of, split_tag
from albert_tf.tokenizers.words import character_sets, pattern_of_words

_SPACE = ord(" ")
_MARK = "<"  # precedes each word

_FAR = 1 << 60


class RawWords(NamedTuple):
    """The words of several texts, text by text; `words` are those of all texts.

    Attributes:
        text: the characters of the words, which have their places in the raw texts.
        first: int64 `[words]`, index of the first character of each word in `text`.
        after: int64 `[words]`, index of the character after its last.
    """

    text: Characters
    first: tf.Tensor
    after: tf.Tensor

    @property
    def rows(self) -> tf.Tensor:
        """int64 `[words]`, the text of each word."""
        return tf.gather(self.text.rows, self.first)

    def spans(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the start and the end of each word in its raw text, int64 `[words]`."""
        return tf.gather(self.text.starts, self.first), tf.gather(self.text.ends, self.after - 1)

    def joined(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Join the words of each text by single spaces.

        Returns:
            The new texts, strings `[texts]`, and the start and the end of each word in them.
        """
        rows, numbers = self.rows, tf.range(tf.size(self.first, tf.int64))
        first_in_row = lower_bound(rows, rows)
        number_in_row = numbers - tf.cast(first_in_row, tf.int64)
        of_words = tf.repeat(numbers, self.after - self.first)
        place = tf.range(tf.size(of_words, tf.int64))
        begins = place == tf.gather(self.first, of_words)
        spaced = begins & (tf.gather(number_in_row, of_words) > 0)
        source = tf.repeat(place, 1 + tf.cast(spaced, tf.int64))
        is_space = tf.concat([source[1:] == source[:-1], [False]], 0)[: tf.size(source)]
        text = self.text.gather(source)
        text = text._replace(codes=tf.where(is_space, _SPACE, text.codes))
        start = self.first - tf.gather(self.first, first_in_row) + number_in_row
        return text.strings(), start, start + self.after - self.first


class WordSplitter:
    """Splits texts into words.

    The regular expression runs on a string with a letter for the kind of each character, so its
    places are those of characters, and it needs no character classes of TensorFlow's Unicode.

    Args:
        joined: as in `albert_tf.tokenizers.words.split_words`.
    """

    def __init__(self, joined: bool):
        kinds, symbols = _kinds_of_characters()
        self._kinds = graph_characters.GraphTable(kinds)
        self._pattern = pattern_of_words(symbols, joined)
        self._spaces = symbols["space"]

    def __call__(self, texts: tf.Tensor) -> RawWords:
        """Return the words of strings `[texts]`."""
        text = graph_characters.decode(texts)
        kinds = self._kinds(text.codes) + ord(string.ascii_letters[0])
        strings = text._replace(codes=kinds).strings()
        marked = tf.strings.regex_replace(strings, self._pattern, rf"{_MARK}\0")
        found = tf.strings.unicode_decode(marked, "UTF-8").values
        is_mark = found == ord(_MARK)
        after_mark = tf.concat([[False], is_mark], 0)[: tf.size(found)]
        begins = tf.boolean_mask(after_mark, ~is_mark)
        in_words = tf.reduce_all(kinds[:, None] != [ord(symbol) for symbol in self._spaces], axis=1)
        first = tf.where(tf.boolean_mask(begins, in_words))[:, 0]
        text = text.gather(tf.where(in_words)[:, 0])
        after = tf.concat([first[1:], [tf.size(text.codes, tf.int64)]], 0)[: tf.size(first)]
        return RawWords(text, first, after)


@functools.cache  # goes through all of Unicode
def _kinds_of_characters() -> tuple[dict[int, int], dict[str, str]]:
    """Find the characters that are in the same of the sets that decide where words end.

    Returns:
        The kind of each character, and for each set the letters of the kinds in it.
    """
    sets = character_sets()
    everything = "".join(map(chr, graph_characters.code_points()))
    membership: dict[int, int] = {}
    for bit, inside in enumerate(sets.values()):
        for found in re.finditer(f"[{inside}]", everything):
            code = found.start()
            membership[code] = membership.get(code, 0) | 1 << bit
    # Kind 0 is in no set.
    kinds = {members: kind for kind, members in enumerate(sorted({0, *membership.values()}))}
    symbols = {
        name: "".join(string.ascii_letters[kind] for m, kind in kinds.items() if m >> bit & 1)
        for bit, name in enumerate(sets)
    }
    return {c: kinds[m] for c, m in membership.items()}, symbols


class EncodedWords(NamedTuple):
    """Texts as tokens, and where their words are.

    Attributes:
        ids, starts, ends: tokens and their characters, `[texts, (tokens)]`, as
            `GraphTokenizer.encode_with_offsets` returns them.
        rows: int64 `[words]`, the text of each word; never decreases.
        word_starts, word_ends: int64 `[words]`, characters of each word.
    """

    ids: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor
    rows: tf.Tensor
    word_starts: tf.Tensor
    word_ends: tf.Tensor


class TagWindows(NamedTuple):
    """Windows of texts, text by text.

    Attributes:
        features: inputs of the model, `[windows, seq]`.
        row, position: int64 `[words]`, window and position where each word is predicted; 0 for a
            word without a token of its own.
        own: bool `[words]`, whether a word has one.
        text: int64 `[windows]`, the text of each window.
    """

    features: dict[str, tf.Tensor]
    row: tf.Tensor
    position: tf.Tensor
    own: tf.Tensor
    text: tf.Tensor


def make_windows(words: EncodedWords, symbols: Symbols, max_seq_length: int) -> TagWindows:
    """Split texts into windows that overlap by half."""
    room = max_seq_length - 2
    text, start, parts = windows(words.ids, room)
    features = packed(parts, None, symbols)

    token = _first_tokens(words)
    own = token >= 0
    # A word is in the window with the nearest middle. Middles are doubled, to be whole numbers, and
    # ascend over all texts.
    longest = tf.reduce_max(tf.concat([words.ids.row_lengths(), [0]], 0))
    beyond = 2 * longest + 2 * max_seq_length
    between = text[1:] == text[:-1]
    middle = start[1:] + start[:-1] + room - 1 + text[1:] * beyond
    before = lower_bound(tf.boolean_mask(middle, between), words.rows * beyond + 2 * token)
    row = tf.where(own, tf.cast(before, tf.int64) + words.rows, 0)
    position = tf.where(own, token - tf.gather(tf.pad(start, [[0, 1]]), row) + 1, 0)
    return TagWindows(features, row, position, own, text)


def _first_tokens(words: EncodedWords) -> tf.Tensor:
    """Return the first token of each word that is not that of an earlier word, or -1, int64."""
    rows = words.ids.value_rowids()
    starts, ends = words.starts.values, words.ends.values
    visible = tf.where(starts < ends)[:, 0]
    rows, starts, ends = (tf.gather(values, visible) for values in (rows, starts, ends))
    # Numbers that ascend over all texts. Tokens never start before the tokens before them.
    beyond = 1 + tf.reduce_max(tf.concat([ends, words.word_ends, [0]], 0))
    reached = running_max(rows * beyond + ends)
    text = words.rows * beyond
    first = tf.cast(lower_bound(reached, text + words.word_starts + 1), tf.int64)
    after = tf.cast(lower_bound(rows * beyond + starts, text + words.word_ends), tf.int64)
    free = tf.concat([[0], _used(first, after)], 0)[: tf.size(first)]
    token = tf.maximum(first, free)
    in_row = tf.gather(tf.pad(visible, [[0, 1]]), token) - tf.gather(
        words.ids.row_starts(), words.rows
    )
    return tf.where(token < after, in_row, -1)


def _used(first: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """Return how many tokens are used after each word, which takes the next one that it may.

    That is `used[k] = min(max(used[k - 1], first[k]) + 1, after[k])`. A sequence of such steps is
    one of the form `min(max(used + shift, low), high)`, so prefixes are combined by doubling.

    Args:
        first: int64 `[words]`, the first token that a word may take; ascends.
        after: int64 `[words]`, the token after the last one; ascends.
    """

    def more(distance, shift, low, high):
        return distance < tf.size(shift)

    def combine(distance, shift, low, high):
        before = (
            tf.concat([tf.fill([distance], tf.constant(nothing, tf.int64)), values[:-distance]], 0)
            for values, nothing in ((shift, 0), (low, -_FAR), (high, _FAR))
        )
        shift_before, low_before, high_before = before
        return (
            2 * distance,
            shift_before + shift,
            tf.maximum(low_before + shift, low),
            tf.minimum(tf.maximum(high_before + shift, low), high),
        )

    state = (1, tf.ones_like(first), first + 1, after)
    _, shift, low, high = tf.while_loop(more, combine, state)
    return tf.minimum(tf.maximum(shift, low), high)


def running_max(values: tf.Tensor) -> tf.Tensor:
    """Return the largest of each value and those before it."""

    def more(distance, values):
        return distance < tf.size(values)

    def compare(distance, values):
        before = tf.concat([values[:distance], values[:-distance]], 0)
        return 2 * distance, tf.maximum(values, before)

    return tf.while_loop(more, compare, (1, values))[1]


class TaggingExport(TaskExport):
    """Predicts the same entities of raw texts as `run_tagger.py`, or tags of their words.

    `serving_default` takes `text` `[batch]`. All of its outputs are `[batch, entities]`, with as
    many columns as the text with most entities has: `label`; `start` and `end`, int32, the range of
    characters in the text; `text`; and `score`, the mean probability of the tags of its words. The
    rest of a row is "", -1 and 0. If tags are plain, there is a column for every word instead.
    """

    settings_class = TaggingSettings
    example_inputs = 'text=tf.constant(["Anna lives in Paris."])'
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

    def _answers(self, text):
        length = self._settings.max_seq_length
        assert length is not None  # task_settings() sets it
        words = self._split(text)
        start, end = words.spans()
        read = words.joined() if self._settings.unit == "words" else (text, start, end)
        ids = self.tokenizer.encode_with_offsets(read[0])
        encoded = EncodedWords(*ids, words.rows, *read[1:])
        windows = make_windows(encoded, self._symbols, length)
        logits = self._in_batches(windows.features, ["logits"])["logits"]
        logits = tf.ensure_shape(logits, [None, None, self._model.num_labels])
        tags, scores = self._word_tags(words, windows, logits)
        if self._is_plain:
            first = last = tf.range(tf.size(tags, tf.int64))
            label = tf.gather(tf.constant(self._tags), tags)
        else:
            first, last, label, scores = self._entities(words.rows, tags, scores)

        rows = tf.gather(words.rows, first)
        start, end = tf.gather(start, first), tf.gather(end, last)
        characters = tf.strings.unicode_decode(text, "UTF-8")
        covered = slices(characters, rows, start, end - start)

        def padded(values, nothing):
            ragged = tf.RaggedTensor.from_value_rowids(
                values, rows, nrows=words.text.count, validate=False
            )
            return ragged.to_tensor(nothing)

        return {
            "label": padded(label, ""),
            "start": padded(tf.cast(start, tf.int32), -1),
            "end": padded(tf.cast(end, tf.int32), -1),
            "text": padded(tf.strings.unicode_encode(covered, "UTF-8"), ""),
            "score": padded(tf.cast(scores, tf.float32), 0.0),
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
        first_window = tf.cast(lower_bound(windows.text, rows), tf.int64)
        row = tf.where(follows, tf.gather(tf.pad(windows.row, [[0, 1]]), read), first_window)
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

    def _entities(self, rows: tf.Tensor, tags: tf.Tensor, scores: tf.Tensor):
        """Return first word, last word, label and score of the entities, as of `tags.chunks`."""
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
        return first, last, label, score

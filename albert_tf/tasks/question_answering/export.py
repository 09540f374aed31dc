"""A question-answering model that takes strings.

Windows and their best answers inside a TensorFlow graph: the counterpart of `windows` and `spans`
in `albert_tf.tasks.question_answering`.
"""

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from albert_tf.export import graph_characters
from albert_tf.export.graph_packing import Symbols, packed, slices, truncate
from albert_tf.export.task_export import TEXTS, TaskExport, TrainedModel
from albert_tf.tasks.question_answering.options import THRESHOLD, QuestionAnsweringSettings

_NEVER = float("-inf")


class Windows(NamedTuple):
    """Sequences of a question and a part of its context, question by question.

    Attributes:
        features: inputs of the model, `[windows, seq]`.
        question: int64 `[windows]`, index of the question.
        position: int64 `[windows]`, position of the part's first token in the sequence.
        first: int64 `[windows]`, index of that token in the context.
        token: int64 `[windows, part]`, indices of the part's tokens among those of all contexts;
            padding repeats some token.
        inside: bool `[windows, part]`, False for padding.
        may_start: bool `[windows, part]`, whether this window has the most context of the token.
    """

    features: dict[str, tf.Tensor]
    question: tf.Tensor
    position: tf.Tensor
    first: tf.Tensor
    token: tf.Tensor
    inside: tf.Tensor
    may_start: tf.Tensor


def make_windows(
    queries: tf.RaggedTensor,
    contexts: tf.RaggedTensor,
    symbols: Symbols,
    settings: QuestionAnsweringSettings,
) -> Windows:
    """Split the contexts of questions into windows; ids are int32 `[questions, (tokens)]`."""
    assert settings.max_seq_length is not None  # task_settings() sets it
    queries = truncate(queries, settings.max_query_length)
    tokens = contexts.row_lengths()
    room = settings.max_seq_length - 3 - queries.row_lengths()
    step = tf.minimum(room, settings.doc_stride)
    parts = 1 + (tf.maximum(tokens - room, 0) + step - 1) // step

    question = tf.repeat(tf.range(tf.size(parts, tf.int64)), parts)
    first = tf.ragged.range(parts).flat_values * tf.gather(step, question)
    length = tf.minimum(tf.gather(tokens, question) - first, tf.gather(room, question))
    queries = slices(
        queries, question, tf.zeros_like(first), tf.gather(queries.row_lengths(), question)
    )
    features = packed(queries, slices(contexts, question, first, length), symbols)

    place = tf.range(tf.maximum(tf.reduce_max(length), 1))[None]
    inside = place < length[:, None]
    token = tf.gather(contexts.row_starts(), question)[:, None] + first[:, None] + place
    token = tf.where(inside, token, 0)
    may_start = _has_most_context(token, inside, place, length, 1 + tf.size(contexts.flat_values))
    position = queries.row_lengths() + 2
    return Windows(features, question, position, first, token, inside, may_start)


def _has_most_context(token, inside, place, length, tokens):
    """Compute `max_context` of `albert_tf.tasks.question_answering.windows` for all tokens."""
    before, after = place, length[:, None] - 1 - place
    context = tf.cast(tf.minimum(before, after), tf.float64)
    context += 0.01 * tf.cast(length[:, None], tf.float64)
    context = tf.where(inside, context, -1.0)
    most = tf.gather(tf.math.unsorted_segment_max(context, token, tokens), token)
    window = tf.range(tf.size(length))[:, None] + tf.zeros_like(token, tf.int32)
    window = tf.where(inside & (context == most), window, tf.int32.max)
    earliest = tf.math.unsorted_segment_min(window, token, tokens)
    return inside & (window == tf.gather(earliest, token))


class Candidates(NamedTuple):
    """Candidate spans of each window, `[windows, spans]`.

    Attributes:
        score: float64; minus infinity for invalid spans.
        first: int64, index of its first token in the part of the context.
        last: int64, index of its last token.
    """

    score: tf.Tensor
    first: tf.Tensor
    last: tf.Tensor


def _independent(
    windows: Windows, outputs: dict[str, tf.Tensor], settings: QuestionAnsweringSettings
) -> Candidates:
    """Return every span of up to `max_answer_length` tokens."""
    part = tf.shape(windows.inside)[1]
    place = tf.range(tf.cast(part, tf.int64))
    within = tf.minimum(
        windows.position[:, None] + place, tf.shape(outputs["start_logits"], tf.int64)[1] - 1
    )
    starts, ends = (
        tf.cast(tf.gather(outputs[f"{kind}_logits"], within, batch_dims=1), tf.float64)
        for kind in ("start", "end")
    )
    starts = tf.where(windows.may_start, starts, _NEVER)
    ends = tf.where(windows.inside, ends, _NEVER)
    longest = tf.minimum(settings.max_answer_length, part)
    ends = tf.pad(ends, [[0, 0], [0, longest - 1]], constant_values=_NEVER)
    more = tf.range(tf.cast(longest, tf.int64))
    # score[:, i, k] is the score of the span of k + 1 tokens that starts at token i.
    score = starts[:, :, None] + tf.gather(ends, place[:, None] + more, axis=1)
    first = place[:, None] + tf.zeros([1, longest], tf.int64)
    last = tf.minimum(first + more, tf.cast(part, tf.int64) - 1)
    count = tf.shape(score)[0]
    flat = [count, part * longest]
    return Candidates(
        tf.reshape(score, flat),
        *(tf.tile(tf.reshape(values, [1, -1]), [count, 1]) for values in (first, last)),
    )


def _conditional(
    windows: Windows, outputs: dict[str, tf.Tensor], settings: QuestionAnsweringSettings
) -> Candidates:
    position = windows.position[:, None]
    first = tf.cast(outputs["start_top_index"], tf.int64) - position
    first = tf.repeat(first, settings.end_n_top, axis=1)
    last = tf.cast(outputs["end_top_index"], tf.int64) - position
    score = tf.cast(
        tf.repeat(outputs["start_top_log_probs"], settings.end_n_top, axis=1), tf.float64
    )
    score += tf.cast(outputs["end_top_log_probs"], tf.float64)
    length = tf.reduce_sum(tf.cast(windows.inside, tf.int64), axis=1, keepdims=True)
    possible = (first >= 0) & (first <= last) & (last < length)
    possible &= last - first < settings.max_answer_length
    place = tf.where(possible, first, 0)
    possible &= tf.gather(windows.may_start, place, batch_dims=1)
    return Candidates(tf.where(possible, score, _NEVER), place, tf.where(possible, last, 0))


def _null_of_logits(outputs: dict[str, tf.Tensor], best) -> tf.Tensor:
    starts, ends = (
        tf.cast(outputs[f"{kind}_logits"][:, 0], tf.float64) for kind in ("start", "end")
    )
    return starts + ends - best


# Head -> names of the outputs to read; the candidate spans of windows; and the score of each window
# for "no answer", given that of the best span of its question.
_FINDERS = {
    "span": (("start_logits", "end_logits"), _independent, _null_of_logits),
    "conditional_span": (
        (
            *("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index"),
            "cls_logits",
        ),
        _conditional,
        lambda outputs, best: tf.cast(outputs["cls_logits"], tf.float64),
    ),
}


def best_spans(
    windows: Windows, candidates: Candidates, start, end, questions
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the best span of each question that is not white space.

    Ties are resolved in favor of the earlier and shorter span.

    Args:
        start: int64 `[tokens of all contexts]`, where text begins at or after each token.
        end: int64 `[tokens of all contexts]`, where text ends at or before each token.
        questions: their number.

    Returns:
        The score, float64, whether there is a span, bool, and its first and last token in the
        context, int64, `[questions]` each; 0 if there is none.
    """
    # Padded with one element, since there may be no token at all.
    of_first, of_last = (
        tf.gather(tf.pad(edge, [[0, 1]]), tf.gather(windows.token, place, batch_dims=1))
        for edge, place in ((start, candidates.first), (end, candidates.last))
    )
    has_text = of_first < of_last
    score = tf.where(has_text, candidates.score, _NEVER)
    best_in_window = tf.reduce_max(score, axis=1)
    best = tf.math.unsorted_segment_max(best_in_window, windows.question, questions)
    found = best > tf.float64.min
    best = tf.where(found, best, _NEVER)

    # Both tokens as one number; the smallest belongs to the earliest and shortest span.
    most = tf.cast(tf.size(start) + 1, tf.int64)
    both = (windows.first[:, None] + candidates.first) * most
    both += windows.first[:, None] + candidates.last
    ties = (score > _NEVER) & (score == tf.gather(best, windows.question)[:, None])
    least = tf.reduce_min(tf.where(ties, both, tf.int64.max), axis=1)
    least = tf.math.unsorted_segment_min(least, windows.question, questions)
    least = tf.where(found, least, 0)
    return tf.where(found, best, 0.0), found, least // most, least % most


def null_scores(windows: Windows, of_windows: tf.Tensor, questions) -> tf.Tensor:
    """Return the lowest null score of each question's windows, float64, 7 significant digits."""
    least = tf.math.unsorted_segment_min(of_windows, windows.question, questions)
    # The threshold was chosen among scores rounded like this, so they must agree to the last digit.
    written = tf.strings.as_string(least, precision=6, scientific=True)
    return tf.strings.to_number(written, tf.float64)


class QuestionAnsweringExport(TaskExport):
    """Predicts the same answers as `run_squad.py`, with their positions.

    `serving_default` takes `question` and `context` `[batch]`. All of its outputs are `[batch]`:
    `answer`, or "" if there is none; `start` and `end`, int32, the range of characters of the
    answer in the context, or -1; `score` of the best candidate, even if it is not the answer; and
    `null_score`, which is higher the more likely there is no answer.
    """

    settings_class = QuestionAnsweringSettings
    inputs = (TEXTS, TEXTS)
    example_inputs = 'question=tf.constant(["Who sat?"]), context=tf.constant(["The cat sat."])'
    _settings: QuestionAnsweringSettings

    def __init__(self, trained: TrainedModel, files: list[str]):
        super().__init__(trained, files)
        if self._settings.null_score_diff_threshold is None:
            threshold = float(trained.adjacent.results.get(THRESHOLD) or 0)
            self._settings = dataclasses.replace(
                self._settings, null_score_diff_threshold=threshold
            )
        self._finder = _FINDERS[trained.head]
        self._is_space = graph_characters.GraphTable(graph_characters.white_space())

    def _answers(self, question, context):
        settings, count = self._settings, tf.size(question, tf.int64)
        ids, start, end = self.tokenizer.encode_with_offsets(context)
        characters = tf.strings.unicode_decode(context, "UTF-8")
        start, end = self._edges(characters, ids, start.flat_values, end.flat_values)
        windows = make_windows(self.tokenizer.encode(question), ids, self._symbols, settings)
        names, candidates_of, null_of = self._finder
        outputs = self._in_batches(windows.features, names)
        candidates = candidates_of(windows, outputs, settings)
        score, given, first, last = best_spans(windows, candidates, start, end, count)
        null = null_scores(windows, null_of(outputs, tf.gather(score, windows.question)), count)
        if settings.version_2_with_negative:
            given &= null <= settings.null_score_diff_threshold

        # Padded with one element, since there may be no token at all.
        edges = (
            tf.gather(tf.pad(place, [[0, 1]]), tf.where(given, ids.row_starts() + token, 0))
            for place, token in ((start, first), (end, last))
        )
        start, end = (tf.where(given, place, 0) for place in edges)
        answer = slices(characters, tf.range(count), start, end - start)
        return {
            "answer": tf.strings.unicode_encode(answer, "UTF-8"),
            "start": tf.cast(tf.where(given, start, -1), tf.int32),
            "end": tf.cast(tf.where(given, end, -1), tf.int32),
            "score": tf.cast(score, tf.float32),
            "null_score": tf.cast(null, tf.float32),
        }

    def _edges(self, characters, ids, start, end):
        """Trim the white space around tokens, as `str.strip` does.

        Args:
            characters: code points of the contexts, `[contexts, (characters)]`.
            ids: token ids, `[contexts, (tokens)]`.
            start: int64 `[tokens]`, first character of each token in its context.
            end: int64 `[tokens]`, the character after its last.

        Returns:
            For each token, where an answer starts that begins with it, and where an answer ends
            that ends with it. For white space alone, the start is not before the end.
        """
        is_text = self._is_space(characters.flat_values) == 0
        places = tf.where(is_text)[:, 0]
        before = tf.cumsum(tf.cast(tf.pad(is_text, [[1, 0]]), tf.int64))
        context = tf.gather(characters.row_starts(), ids.value_rowids())
        following = tf.concat([places, [tf.size(is_text, tf.int64)]], axis=0)
        preceding = tf.concat([[tf.constant(-1, tf.int64)], places], axis=0)
        start = tf.gather(following, tf.gather(before, context + start)) - context
        end = tf.gather(preceding, tf.gather(before, context + end)) + 1 - context
        return start, end

"""A question-answering model that takes strings."""

import dataclasses

import tensorflow as tf

from albert_tf.export import character_tables, graph_characters
from albert_tf.export.graph_packing import slices
from albert_tf.export.task_export import TEXTS, TaskExport, TrainedModel
from albert_tf.tasks.question_answering.graph import FINDERS, best_spans, make_windows, null_scores
from albert_tf.tasks.question_answering.options import THRESHOLD, QuestionAnsweringSettings


class QuestionAnsweringExport(TaskExport):
    """Predicts the same answers as `run_squad.py`, with their positions."""

    settings_class = QuestionAnsweringSettings
    _settings: QuestionAnsweringSettings

    def __init__(self, trained: TrainedModel, files: list[str]):
        super().__init__(trained, files)
        if self._settings.null_score_diff_threshold is None:
            threshold = float(trained.adjacent.results.get(THRESHOLD) or 0)
            self._settings = dataclasses.replace(
                self._settings, null_score_diff_threshold=threshold
            )
        self._finder = FINDERS[trained.head]
        self._is_space = graph_characters.GraphTable(character_tables.white_space())

    @classmethod
    def example(cls, settings: QuestionAnsweringSettings) -> str:
        return 'question=tf.constant(["Who sat?"]), context=tf.constant(["The cat sat."])'

    def signatures(self) -> dict:
        """Return the signatures by name.

        `serving_default` takes `question` and `context` `[batch]`. All of its outputs are
        `[batch]`: `answer`, or "" if there is none; `start` and `end`, int32, the range of
        characters of the answer in the context, or -1; `score` of the best candidate, even if it
        is not the answer; and `null_score`, which is higher the more likely there is no answer.
        """

        @tf.function(autograph=False, input_signature=[TEXTS, TEXTS])
        def serving_default(question, context):
            return self._answered(question, context)

        return {"serving_default": serving_default}

    def _answers(self, question, context):
        settings, count = self._settings, tf.size(question, tf.int64)
        ids, start, end = self.tokenizer.encode_with_offsets(context)
        characters = tf.strings.unicode_decode(context, "UTF-8")
        start, end = self._edges(characters, ids, start.flat_values, end.flat_values)
        windows = make_windows(self.tokenizer.encode(question), ids, self._symbols, settings)
        outputs = self._in_batches(windows.features, self._finder.outputs)
        candidates = self._finder.candidates(windows, outputs, settings)
        best = best_spans(windows, candidates, start, end, count)
        null = self._finder.null(outputs, tf.gather(best.score, windows.question))
        null = null_scores(windows, null, count)
        given = best.found
        if settings.version_2_with_negative:
            given &= null <= settings.null_score_diff_threshold

        # Padded with one element, since there may be no token at all.
        edges = (
            tf.gather(tf.pad(place, [[0, 1]]), tf.where(given, ids.row_starts() + token, 0))
            for place, token in ((start, best.first), (end, best.last))
        )
        start, end = (tf.where(given, place, 0) for place in edges)
        answer = slices(characters, tf.range(count), start, end - start)
        return {
            "answer": tf.strings.unicode_encode(answer, "UTF-8"),
            "start": tf.cast(tf.where(given, start, -1), tf.int32),
            "end": tf.cast(tf.where(given, end, -1), tf.int32),
            "score": tf.cast(best.score, tf.float32),
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

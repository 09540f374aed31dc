"""A model that finds answers to questions in texts, and takes both as strings."""

from __future__ import annotations

import keras
import tensorflow as tf

from albert_tf.export import character_tables, graph_characters
from albert_tf.export.exported_task_model import TEXTS, ExportedTaskModel
from albert_tf.export.graph_packing import slices
from albert_tf.export.graph_spans import FINDERS, best_spans, null_scores
from albert_tf.export.graph_windows import make_windows
from albert_tf.export.task_settings import SpanSettings
from albert_tf.tokenizers import Tokenizer

# Sequences that the model reads at a time: a book as context must not fill the memory.
_AT_A_TIME = 32


class ExportedQuestionAnswering(ExportedTaskModel):
    """Answers as `run_squad.py` predicts them, and where they stand.

    Args:
        model: of either head.
        tokenizer: of the model.
        files: kept as assets.
        settings: how questions are read and answers chosen.
        head: key of `FINDERS`.
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        files: list[str],
        settings: SpanSettings,
        head: str,
    ):
        super().__init__(model, tokenizer, files)
        self._settings = settings
        self._finder = FINDERS[head]
        self._is_space = graph_characters.GraphTable(character_tables.white_space())

    def signatures(self) -> dict:
        """`serving_default` takes `question` and `context` `[batch]`; of each question it gives

        `answer`, "" for none; `start` and `end`, int32, its first character in the context and the
        one after its last, -1 for none; `score` of the best answer, given or not; `null_score`,
        the higher, the surer that there is none.
        """

        @tf.function(autograph=False, input_signature=[TEXTS, TEXTS])
        def serving_default(question, context):
            return self._answers(question, context)

        return {"serving_default": serving_default}

    def _answers(self, question, context):
        settings, count = self._settings, tf.size(question, tf.int64)
        ids, start, end = self.tokenizer.encode_with_offsets(context)
        characters = tf.strings.unicode_decode(context, "UTF-8")
        start, end = self._edges(characters, ids, start.flat_values, end.flat_values)
        windows = make_windows(self.tokenizer.encode(question), ids, self._symbols, settings)
        outputs = self._outputs(windows.features)
        candidates = self._finder.candidates(windows, outputs, settings)
        best = best_spans(windows, candidates, start, end, count)
        null = self._finder.null(outputs, tf.gather(best.score, windows.question))
        null = null_scores(windows, null, count)
        given = best.found
        if settings.version_2_with_negative:
            given &= null <= settings.null_score_diff_threshold

        # With one more, since there may be no token at all.
        of_answer = (
            tf.gather(tf.pad(place, [[0, 1]]), tf.where(given, ids.row_starts() + token, 0))
            for place, token in ((start, best.first), (end, best.last))
        )
        start, end = (tf.where(given, place, 0) for place in of_answer)
        answer = slices(characters, tf.range(count), start, end - start)
        return {
            "answer": tf.strings.unicode_encode(answer, "UTF-8"),
            "start": tf.cast(tf.where(given, start, -1), tf.int32),
            "end": tf.cast(tf.where(given, end, -1), tf.int32),
            "score": tf.cast(best.score, tf.float32),
            "null_score": tf.cast(null, tf.float32),
        }

    def _edges(self, characters, ids, start, end):
        """Where tokens begin and end if white space is left out, as `str.strip` does it.

        Args:
            characters: code points of the contexts, `[contexts, (characters)]`.
            ids: of their tokens, `[contexts, (tokens)]`.
            start: int64 `[tokens]`, first character of each in its context.
            end: alike, the one after its last.

        Returns:
            Of each token where text begins that begins with it, and ends that ends with it; for
            nothing but white space the former is not before the latter.
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

    def _outputs(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """What the model says of all windows, some of them at a time."""
        names = self._finder.outputs
        windows = tf.shape(features["input_ids"])[0]

        def more(first, *arrays):
            return first < windows

        def read(first, *arrays):
            after = first + _AT_A_TIME
            part = {name: values[first:after] for name, values in features.items()}
            outputs = self._model(part)
            pairs = zip(arrays, names, strict=True)
            number = first // _AT_A_TIME
            return after, *(array.write(number, outputs[name]) for array, name in pairs)

        arrays = [
            tf.TensorArray(
                tf.int32 if name.endswith("_index") else tf.float32,
                size=(windows + _AT_A_TIME - 1) // _AT_A_TIME,
                infer_shape=False,
            )
            for name in names
        ]
        _, *arrays = tf.while_loop(more, read, [0, *arrays], parallel_iterations=1)
        return {name: array.concat() for name, array in zip(names, arrays, strict=True)}

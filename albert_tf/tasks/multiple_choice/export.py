"""A multiple-choice model that takes strings."""

import tensorflow as tf

from albert_tf.export.graph_packing import packed, slices, truncate
from albert_tf.export.task_export import TEXTS, TaskExport
from albert_tf.modeling.losses import MISSING_CHOICE
from albert_tf.tasks.multiple_choice.options import MultipleChoiceSettings

# Marks a blank. It is first removed from questions, where the tokenizer would drop it anyway.
_MARK = "\x01"
_UNDERSCORES = "[_\uff3f]+"
_NO_NAME = "[^\\pL\\pN_\uff3f]"
_SPACE = r"[\s\x0b\x1c-\x1f\x{85}\pZ]+"


class MultipleChoiceExport(TaskExport):
    """Predicts the probabilities of the options of questions.

    `serving_default` takes `context` and `question` `[batch]` and `options` `[batch, options]`,
    padded with "" for questions with fewer options. It returns `probabilities` `[batch, options]`
    and `answer` `[batch]`, the index of the most probable option.
    """

    settings_class = MultipleChoiceSettings
    inputs = (TEXTS, TEXTS, tf.TensorSpec([None, None], tf.string))
    example_inputs = (
        'question=tf.constant(["Who sat?"]), context=tf.constant(["The cat sat."]), '
        'options=tf.constant([["the cat", "the mat"]])'
    )
    _settings: MultipleChoiceSettings

    def _answers(self, context, question, options):
        settings = self._settings
        assert settings.max_seq_length is not None  # task_settings() sets it
        rows, count = tf.unstack(tf.shape(options, tf.int64))
        texts = filled(question, options, in_names=settings.task_name == "race")
        candidates = truncate(self.tokenizer.encode(texts), settings.max_qa_length, from_end=True)
        contexts = self.tokenizer.encode(context)
        of = tf.repeat(tf.range(rows), count)
        room = settings.max_seq_length - 3 - candidates.row_lengths()
        length = tf.minimum(tf.gather(contexts.row_lengths(), of), room)
        parts = slices(contexts, of, tf.zeros_like(of), length)
        features = {
            name: tf.reshape(values, [rows, count, -1])
            for name, values in packed(parts, candidates, self._symbols).items()
        }
        logits = self._model(features)["logits"]
        if settings.task_name != "race":  # RACE always has four options, which may be empty
            logits = tf.where(stripped(options) == "", MISSING_CHOICE, logits)
        return {
            "probabilities": tf.nn.softmax(logits),
            "answer": tf.argmax(logits, axis=-1, output_type=tf.int32),
        }


def filled(question, options, in_names: bool):
    """Fill every question `[batch]` with each of its options `[batch, options]`, as `fill` does.

    Underscores next to letters and digits are blanks if they may be `in_names`. The result is
    `[batch * options]`.
    """
    question = tf.strings.regex_replace(question, _MARK, "")
    if in_names:
        question = tf.strings.regex_replace(question, _UNDERSCORES, _MARK)
    else:
        alone = f"(^|{_NO_NAME}){_UNDERSCORES}($|{_NO_NAME})"
        # Matches share the character between them, so one pass replaces only every second one.
        for _ in range(2):
            question = tf.strings.regex_replace(question, alone, rf"\1{_MARK}\2")
    rows, count = tf.unstack(tf.shape(options, tf.int64))
    of = tf.repeat(tf.range(rows), count)
    option = tf.reshape(stripped(options), [-1])
    parts = tf.gather(tf.strings.split(question, _MARK), of)
    number = tf.ragged.range(parts.row_lengths()).flat_values
    before = tf.where(number == 0, "", tf.gather(option, parts.value_rowids()))
    joined = tf.strings.reduce_join(parts.with_flat_values(before + parts.flat_values), axis=1)
    return tf.where(parts.row_lengths() == 1, tf.gather(question, of) + " " + option, joined)


def stripped(texts):
    """Remove white space at both ends of texts, as `str.strip` does."""
    texts = tf.strings.regex_replace(texts, f"^{_SPACE}", "", replace_global=False)
    return tf.strings.regex_replace(texts, f"{_SPACE}$", "", replace_global=False)

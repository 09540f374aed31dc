"""A classifier that takes strings."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.export.graph_packing import packed, truncate, truncated_lengths
from albert_tf.export.task_export import TEXTS, TaskExport, TrainedModel
from albert_tf.tasks.classification.options import ClassificationSettings
from albert_tf.tasks.classification.targets import TARGETS, Number, OneLabel


class ClassificationExport(TaskExport):
    """Predicts labels or values of single texts and of pairs."""

    settings_class = ClassificationSettings
    _settings: ClassificationSettings

    def __init__(self, trained: TrainedModel, files: list[str]):
        super().__init__(trained, files)
        self._labels = trained.labels
        self._target = TARGETS[self._settings.kind]
        if len(self._labels) == 1 and self._target is OneLabel:
            self._target = Number  # weights converted from another library

    @classmethod
    def example(cls, settings: ClassificationSettings) -> str:
        pair = ', text_pair=tf.constant(["A cat sat."])' if settings.pairs else ""
        return f'text=tf.constant(["The cat sat."]){pair}'

    def _answers(self, text, pair=None):
        length = self._settings.max_seq_length
        assert length is not None  # task_settings() sets it
        first = self.tokenizer.encode(text)
        second = None if pair is None else self.tokenizer.encode(pair)
        if second is None:
            first = truncate(first, length - 2)
        else:
            lengths = truncated_lengths(first.row_lengths(), second.row_lengths(), length - 3)
            first, second = truncate(first, lengths[0]), truncate(second, lengths[1])
        logits = self._model(packed(first, second, self._symbols))["logits"]
        outputs = self._target.graph_outputs(logits)
        if "probabilities" in outputs:
            names = tf.constant(list(self._labels))
            # For every row, since servers expect a batch dimension in every output.
            outputs["labels"] = tf.tile(names[None], [tf.shape(logits)[0], 1])
            if "label" in outputs:
                outputs["label"] = tf.gather(names, outputs["label"])
        return outputs

    def signatures(self) -> dict:
        """Return the signatures by name.

        `single` takes `text` `[batch]`; `pair` takes `text` and `text_pair` `[batch]`.
        `serving_default` is the one that the model was trained for, or `single` if unknown. They
        return `probabilities` and `labels` `[batch, labels]`, and the most probable `label`
        `[batch]`. With several labels per text, `chosen` `[batch, labels]` replaces `label`. A
        regression returns only `value` `[batch]`.
        """

        @tf.function(autograph=False, input_signature=[TEXTS])
        def single(text):
            return self._answered(text)

        @tf.function(autograph=False, input_signature=[TEXTS, TEXTS])
        def pair(text, text_pair):
            return self._answered(text, text_pair)

        default = pair if self._settings.pairs else single
        return {"serving_default": default, "single": single, "pair": pair}

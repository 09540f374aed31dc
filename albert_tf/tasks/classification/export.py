"""A classifier that takes strings."""

import tensorflow as tf

from albert_tf.export.graph_packing import keep_ends, packed, shortened, truncate, windows
from albert_tf.export.task_export import TEXTS, TaskExport, TrainedModel
from albert_tf.tasks.classification.options import ClassificationSettings, in_windows
from albert_tf.tasks.classification.targets import TARGETS


class ClassificationExport(TaskExport):
    """Predicts labels or values of single texts and of pairs."""

    settings_class = ClassificationSettings
    _settings: ClassificationSettings

    def __init__(self, trained: TrainedModel, files: list[str]):
        super().__init__(trained, files)
        self._labels = trained.labels
        self._target = TARGETS[self._settings.kind]

    @classmethod
    def example(cls, settings: ClassificationSettings) -> str:
        pair = ', text_pair=tf.constant(["A cat sat."])' if settings.pairs else ""
        return f'text=tf.constant(["The cat sat."]){pair}'

    def _answers(self, text, pair=None):
        outputs = self._target.graph_outputs(self._logits(text, pair))
        if "probabilities" in outputs:
            names = tf.constant(list(self._labels))
            # For every row, since servers expect a batch dimension in every output.
            outputs["labels"] = tf.tile(names[None], [tf.shape(text)[0], 1])
            if "label" in outputs:
                outputs["label"] = tf.gather(names, outputs["label"])
        return outputs

    def _logits(self, text, pair):
        length, long_texts = self._settings.max_seq_length, self._settings.long_texts
        assert length is not None  # task_settings() sets it
        first = self.tokenizer.encode(text)
        if in_windows(long_texts):
            of_text, _, first = windows(first, length - 2)
            features = packed(first, None, self._symbols)
            logits = self._in_batches(features, ["logits"])["logits"]
            logits = tf.ensure_shape(logits, [None, len(self._labels)])
            combine = tf.math.segment_max if long_texts == "windows_max" else tf.math.segment_mean
            return combine(logits, of_text)
        shorten = keep_ends if long_texts == "head_tail" else truncate
        segments = [first] if pair is None else [first, self.tokenizer.encode(pair)]
        first, *others = shortened(segments, length, shorten)
        return self._model(packed(first, others[0] if others else None, self._symbols))["logits"]

    def signatures(self) -> dict:
        """Return the signatures by name.

        `single` takes `text` `[batch]`; `pair` takes `text` and `text_pair` `[batch]`, and does not
        exist if the model reads windows, which are of single texts. `serving_default` is the one
        that the model was trained for, or `single` if unknown. They return `probabilities` and
        `labels` `[batch, labels]`, and the most probable `label` `[batch]`. With several labels per
        text, `chosen` `[batch, labels]` replaces `label`. A regression returns only `value`
        `[batch]`.
        """

        @tf.function(autograph=False, input_signature=[TEXTS])
        def single(text):
            return self._answered(text)

        @tf.function(autograph=False, input_signature=[TEXTS, TEXTS])
        def pair(text, text_pair):
            return self._answered(text, text_pair)

        if in_windows(self._settings.long_texts):
            return {"serving_default": single, "single": single}
        default = pair if self._settings.pairs else single
        return {"serving_default": default, "single": single, "pair": pair}

"""Sentence vectors of strings."""

from albert_tf.export.graph_packing import packed, truncate
from albert_tf.export.task_export import TaskExport
from albert_tf.tasks.sentences.options import SentenceSettings


class SentenceExport(TaskExport):
    """Computes the vectors of texts.

    `serving_default` takes `text` `[batch]` and returns `vector` `[batch, hidden]`.
    """

    settings_class = SentenceSettings
    example_inputs = 'text=tf.constant(["The cat sat on the mat."])'

    def _answers(self, text):
        room = self._settings.max_seq_length - 2
        tokens = truncate(self.tokenizer.encode(text), room)
        features = packed(tokens, None, self._symbols)
        vectors = self._model({name: each[:, None] for name, each in features.items()})["vectors"]
        return {"vector": vectors[:, 0]}

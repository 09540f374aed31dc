"""A kind of fine-tuning defined outside of the package: one tag for every word of a line.

Files contain lines of `word/TAG`; lines of standard input contain words alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import read_lines
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.input.examples import Features
from albert_tf.modeling.heads import EncoderModel
from albert_tf.modeling.losses import Objective
from albert_tf.options import option
from albert_tf.report.sections import Section
from albert_tf.tokenizers import Tokenizer

NO_TAG = -1  # of [CLS], [SEP] and padding


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingOptions(FineTuningOptions):
    """Flags of the program."""

    train_file: str | None = option(None, "Lines of word/TAG to train on.")
    eval_file: str | None = option(None, "Lines of word/TAG to evaluate on.")
    predict_file: str | None = option(None, "Lines to tag; - for standard input.")
    tags: tuple[str, ...] = option(("O",), "The tags.")


class TaggedLine(NamedTuple):
    """Words, and a tag each unless they are unknown."""

    words: list[str]
    tags: list[str] | None


class TaggingObjective(Objective):
    """Mean cross-entropy over the words of a batch; `tag_ids` is `[batch, max_seq_length]`."""

    parts = ("tagging",)
    quantities = ("tagging_loss",)
    losses = ("tagging_loss",)

    def weights(self, batch):
        return {"tagging": ops.sum(ops.cast(batch["tag_ids"] != NO_TAG, "float32"))}

    def sums(self, outputs, batch):
        logits = outputs["logits"]
        tag_ids = batch["tag_ids"][:, : ops.shape(logits)[1]]
        is_word = ops.cast(tag_ids != NO_TAG, "float32")
        losses = keras.losses.sparse_categorical_crossentropy(
            ops.maximum(tag_ids, 0), logits, from_logits=True
        )
        return {"tagging_loss": ops.sum(is_word * losses)}


class AlbertForTagging(EncoderModel):
    """Logits for the tag at every position."""

    def __init__(self, config: AlbertConfig, num_tags: int, **kwargs):
        super().__init__(config, **kwargs)
        self.tagger = keras.layers.Dense(num_tags, name="tagger", dtype="float32")
        self.tagger.build((None, None, config.hidden_size))
        self.built = True

    def call(self, features, training: bool = False):
        outputs = dict(self.encoder(features, training=training))
        outputs["logits"] = self.tagger(outputs["sequence_output"])
        return outputs


class Tagging(FineTuningTask):
    """Predicts the tag of every word, which must be a single token."""

    options: TaggingOptions
    objective = TaggingObjective()
    metric = "eval_tag_accuracy"
    reads_standard_input = True

    def __init__(self, options: TaggingOptions, tokenizer: Tokenizer):
        super().__init__(options, tokenizer)
        self._tags = list(options.tags)

    def read(self, split: str) -> dict[str, list[TaggedLine]]:
        path = getattr(self.options, f"{split}_file")
        if not path:
            raise InputError(f"`{split}_file`: a file is required")
        pairs = [[pair.split("/") for pair in line.split()] for line in read_lines(path)]
        return {"": [TaggedLine([p[0] for p in row], [p[-1] for p in row]) for row in pairs]}

    def encode(self, split: str, examples: Sequence[TaggedLine]) -> Features:
        room = self.options.max_seq_length - 2
        encoded = self.tokenizer.encode_batch([" ".join(example.words) for example in examples])
        start, end = self.tokenizer.cls_id, self.tokenizer.sep_id
        sequences = [[start, *ids[:room], end] for ids in encoded]
        arrays = {}
        if split != "predict":
            tag_ids = np.full((len(examples), self.options.max_seq_length), NO_TAG, np.int32)
            for row, example in enumerate(examples):
                ids = [self._tags.index(tag) for tag in example.tags[:room]]
                tag_ids[row, 1 : len(ids) + 1] = ids
            arrays["tag_ids"] = tag_ids
        return Features(
            [(ids, [0] * len(ids)) for ids in sequences],
            self.tokenizer.pad_id,
            arrays=arrays,
            tokens_cut=[max(len(ids) - room, 0) for ids in encoded],
        )

    def build_model(self, config: AlbertConfig, dtype: str) -> keras.Model:
        return AlbertForTagging(config, len(self._tags), dtype=dtype)

    def score(self, examples: ExampleSet, outputs: Outputs) -> dict[str, float]:
        predicted = outputs["logits"].argmax(axis=-1)
        tag_ids = examples.features.arrays["tag_ids"][:, : predicted.shape[1]]
        return {"eval_tag_accuracy": float((predicted == tag_ids)[tag_ids != NO_TAG].mean())}

    def decode(self, examples: ExampleSet, outputs: Outputs) -> list[str]:
        return [
            " ".join(self._tags[tag] for tag in row[1 : length - 1])
            for row, length in zip(
                outputs["logits"].argmax(axis=-1), examples.features.lengths, strict=True
            )
        ]

    def report_sections(self, examples: ExampleSet, outputs: Outputs) -> list[Section]:
        tags = " ".join(self.decode(examples, outputs)).split()
        counts = ", ".join(f"{tag} {tags.count(tag)}" for tag in self._tags)
        return [Section("Tags", f"Predicted tags: {counts}.")]

    def parse_lines(self, lines: Sequence[str], first: int) -> list[TaggedLine]:
        return [TaggedLine(line.split(), None) for line in lines]

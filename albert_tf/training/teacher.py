"""A teacher in pretraining: a model whose last layer another one learns.

The student learns, for every token of a batch,

- the relations of MiniLMv2 (arXiv 2012.15828) in the last layer: how much each token's query, key
  and value resemble those of the others. They are split into as many relation heads in both models,
  so that heads and widths may differ;
- the last hidden states, by 1 - cosine as in DistilBERT (arXiv 1910.01108), section 3. TinyBERT's
  mean squared error (arXiv 1909.10351) depends on their scale, which the last LayerNorm of a
  teacher may have made small, but shared layers cannot;
- the teacher's probabilities of masked tokens, together with what it learns without a teacher, if
  the teacher has that head. If not, only the first two, as in MiniLMv2: the student's head would be
  new, and the gradient of its loss much larger than theirs. Both models then read the text without
  masks: what such a teacher makes of a mask tells little about text.

All losses have the weight 1. The teacher runs in the training step, without dropout, on the inputs
of the student.
"""

import dataclasses
import logging
import math
import zlib

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.engines.base import Engine
from albert_tf.engines.steps import accepted_arguments
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.interop.heads import TEACHER_PROJECTION
from albert_tf.interop.loading import load_weights, open_weights
from albert_tf.modeling.attention import mask_scores
from albert_tf.modeling.encoder import AlbertEncoder, attention_mask_of
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.kernels import PLAIN, PLAIN_KERNELS, Execution, Kernels
from albert_tf.modeling.layers import dense
from albert_tf.modeling.losses import Objective, PretrainingObjective, example_weights
from albert_tf.modeling.model import AlbertModel
from albert_tf.training.options import PretrainingOptions

_logger = logging.getLogger(__name__)

# Of MiniLMv2: 48 relation heads for teachers of 768, 64 for those of 1,024.
_RELATION_HEAD_SIZE = 16

RELATION, HIDDEN, MASKED_LM = "teacher_relation", "teacher_hidden", "teacher_masked_lm"


def find_teacher(options: PretrainingOptions, config: AlbertConfig) -> AlbertConfig | None:
    """Return the config of the teacher of a student; None if the options name no teacher.

    Raises:
        InputError: If it cannot be opened, or cannot read the examples of the student.
    """
    if not (options.teacher and options.do_train):
        return None
    with arguments_renamed(path="teacher"):
        found = open_weights(options.teacher).config
    if found is None:
        raise InputError(f"`teacher`={options.teacher}: there is no config next to the weights")
    needed = {
        "vocab_size": config.vocab_size,
        "type_vocab_size": config.type_vocab_size,
        "max_position_embeddings": options.max_seq_length,
    }
    for name, least in needed.items():
        value = getattr(found, name)
        if value < least or (name == "vocab_size" and value > least):
            raise InputError(
                f"`teacher`={options.teacher}: has {name} {value}, but the student needs {least}"
            )
    return found


def teacher_identity(options: PretrainingOptions) -> str:
    """Return a checksum of the encoder of the teacher; "" if the options name none."""
    if not options.teacher:
        return ""
    weights, checksum = open_weights(options.teacher), 0
    for path in sorted(path for path in weights.tensors if path.startswith("bert/")):
        checksum = zlib.crc32(weights.read(path).tobytes(), checksum)
    return f"{checksum:08x}"


def with_teacher(
    engine: Engine,
    options: PretrainingOptions,
    student: EncoderModel,
    objective: Objective,
    config: AlbertConfig,
) -> "tuple[TaughtModel, TaughtObjective]":
    """Return a student and its objective together with the teacher that the options name.

    `config` is the teacher's, from `find_teacher`.

    Raises:
        InputError: If weights of its encoder are missing.
    """
    with engine.devices.scope():
        model = AlbertForPreTraining(config, name="teacher", dtype=options.dtype_policy)
    model.trainable = False
    with engine.workers.synchronized(), arguments_renamed(path="teacher"):
        loaded = load_weights(model, str(options.teacher))
    predicts_tokens = not any(path.startswith("cls/predictions/") for path in loaded.missing)
    more = " and masked tokens" if predicts_tokens else " only: it predicts no masked tokens"
    _logger.info("teacher %s: its relations and hidden states%s", loaded.source, more)
    with engine.devices.scope():
        taught = TaughtModel(student, _Teacher(model, predicts_tokens))
    return taught, TaughtObjective(objective, predicts_tokens)


@dataclasses.dataclass(frozen=True)
class _Teacher:
    """A model, which Keras does not see in here, and whether it predicts masked tokens."""

    model: EncoderModel
    predicts_tokens: bool


class TaughtModel(AlbertModel):
    """A student, whose outputs are compared with those of a teacher in training.

    Its weights are those of the student and, if their widths differ, `teacher_projection`, which
    maps the student's hidden states to the teacher's.

    Args:
        student: the model to train.
        teacher: a model with the same vocabulary.

    Attributes:
        constants: the teacher's variables, which are neither trained nor saved.
    """

    def __init__(self, student: EncoderModel, teacher: _Teacher):
        policy, width = student.dtype_policy, teacher.model.config.hidden_size
        super().__init__(student.config, student.attention, name="taught", dtype=policy)
        self.student = student
        self.teacher = teacher
        self.feature_names = (*student.feature_names, "masked_lm_ids")  # type: ignore[misc]
        self.projection = None
        if width != student.config.hidden_size:
            stddev = student.config.initializer_range
            self.projection = dense(width, stddev, TEACHER_PROJECTION, policy)
            self.projection.build((None, None, student.config.hidden_size))
        self.built = True

    @property
    def encoder(self) -> AlbertEncoder:
        """The student's, with the seeds of its dropout."""
        return self.student.encoder

    @property
    def constants(self) -> list[keras.Variable]:
        return self.teacher.model.weights

    def call(self, features, training: bool = False, execution: Execution = PLAIN):
        """Return the outputs of the student, and losses of the teacher's parts.

        Returns:
            Dictionary of all outputs of the student, of `teacher_relation_loss` and
            `teacher_hidden_loss` `[batch, seq]`, and `teacher_masked_lm_loss`
            `[batch, predictions]` if the teacher predicts tokens.
        """
        model, mask = self.teacher.model, attention_mask_of(features)
        if not self.teacher.predicts_tokens:
            features = {**features, "input_ids": _without_masks(features)}
        outputs = self.student(
            features, training=training, execution=execution, output_hidden_states=True
        )
        plain = Execution(execution.kernels)
        taught = model(features, training=False, execution=plain, output_hidden_states=True)
        heads = relation_heads(model.config.hidden_size, self.config.hidden_size)
        expected = _relation_scores(model.encoder, taught, mask, heads)
        found = _relation_scores(self.encoder, outputs, mask, heads)
        hidden = outputs["sequence_output"]
        hidden = hidden if self.projection is None else self.projection(hidden)
        truth = ops.stop_gradient(_wide(taught["sequence_output"]))
        outputs |= {
            f"{RELATION}_loss": ops.sum(divergence(expected, found), axis=1) / heads,
            f"{HIDDEN}_loss": 1 - _cosine(_wide(hidden), truth),
        }
        if self.teacher.predicts_tokens:
            # An engine may compute them together with the loss of labels; not twice.
            outputs["masked_lm_logits"] = ops.convert_to_tensor(outputs["masked_lm_logits"])
            expected = ops.convert_to_tensor(taught["masked_lm_logits"])
            outputs[f"{MASKED_LM}_loss"] = divergence(expected, outputs["masked_lm_logits"])
        return outputs


def _without_masks(features):
    """Return the ids of the text that was masked."""
    ids, positions = features["input_ids"], features["masked_lm_positions"]
    places = ops.one_hot(positions, ids.shape[1], dtype="int32")  # [batch, predictions, seq]
    places *= ops.cast(positions > 0, "int32")[..., None]  # others are no predictions
    truth = ops.sum(places * features["masked_lm_ids"][..., None], axis=1)
    return ops.where(ops.any(places, axis=1), truth, ids)


def relation_heads(teacher_width: int, student_width: int) -> int:
    """Return the number of relation heads of models whose layers have these widths.

    The teacher's have a size of 16 or, where their number would not divide both widths, more.
    """
    common = math.gcd(teacher_width, student_width)
    most = max(teacher_width // _RELATION_HEAD_SIZE, 1)
    return max(heads for heads in range(1, most + 1) if common % heads == 0)


def _relation_scores(encoder: AlbertEncoder, outputs, mask, heads: int):
    """Return what the softmax of is the relations of the last layer, float32.

    Those of queries, keys and values follow each other: `[batch, 3 * heads, seq, seq]`.
    """
    attention, hidden = encoder.depth_blocks[-1].attention, outputs["hidden_states"][-2]
    vectors = ops.concatenate(attention.projections(hidden, heads), axis=1)
    products = ops.matmul(vectors, ops.transpose(vectors, (0, 1, 3, 2)))
    return _wide(products) * vectors.shape[-1] ** -0.5 + mask_scores(mask)


def _wide(tensor):
    return ops.cast(tensor, "float32")


def _cosine(found, expected):
    return ops.sum(ops.normalize(found) * ops.normalize(expected), axis=-1)


def divergence(expected, logits):
    """Return the Kullback-Leibler divergence of a softmax `[..., classes]` from an expected one.

    Both are logits; no gradient flows to the expected ones.
    """
    expected = ops.log_softmax(ops.stop_gradient(expected), axis=-1)
    return ops.sum(ops.exp(expected) * (expected - ops.log_softmax(logits, axis=-1)), axis=-1)


class TaughtObjective(Objective):
    """The losses that `TaughtModel` computes, means over tokens that are real.

    Args:
        objective: of the student, without a teacher.
        predicts_tokens: whether it is learned too, and the teacher's probabilities of masked
            tokens.
    """

    def __init__(self, objective: Objective, predicts_tokens: bool):
        self._own = objective if predicts_tokens else None
        own = self._own or Objective  # which has no parts
        self._taught = (RELATION, HIDDEN, *((MASKED_LM,) if predicts_tokens else ()))
        losses = tuple(f"{part}_loss" for part in self._taught)
        self.parts = (*own.parts, *self._taught)
        self.quantities = (*own.quantities, *losses)
        self.losses = (*own.losses, *losses)
        self.epsilon = {**own.epsilon, MASKED_LM: PretrainingObjective.epsilon["masked_lm"]}
        self.labels = objective.labels

    def weights(self, batch):
        taught = {part: ops.sum(each) for part, each in self._weights(batch).items()}
        return {**(self._own.weights(batch) if self._own else {}), **taught}

    def sums(self, outputs, batch, kernels: Kernels = PLAIN_KERNELS):
        sums = {
            f"{part}_loss": ops.sum(weights * outputs[f"{part}_loss"])
            for part, weights in self._weights(batch).items()
        }
        if own := self._own:
            sums |= own.sums(outputs, batch, **accepted_arguments(own.sums, kernels=kernels))
        return sums

    def _weights(self, batch) -> dict:
        examples = example_weights(batch)[:, None]
        real = batch["example_ids"] > 0 if "example_ids" in batch else batch["input_mask"]
        tokens = ops.cast(real, "float32") * examples
        weights = {RELATION: tokens, HIDDEN: tokens}
        if MASKED_LM in self._taught:
            weights[MASKED_LM] = batch["masked_lm_weights"] * examples
        return weights

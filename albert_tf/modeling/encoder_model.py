"""EncoderModel: the base class of all models that are an encoder with the heads of a task."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.attention import DEFAULT
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.kernels import PLAIN, Execution, Kernels
from albert_tf.modeling.layers import SITES, LinearHead, dropout, forward_seed
from albert_tf.modeling.losses import Objective
from albert_tf.modeling.model import ENCODER_FEATURES, ROW_FEATURES, AlbertModel, renamed

# Outputs of the encoder, which `predict` leaves out: 200 GB for 10,000 texts of 512 tokens (base).
_ENCODER_OUTPUTS = ("sequence_output", "pooled_output", "encoder_outputs")


class EncoderModel(AlbertModel):
    """An encoder and the heads of a task, which a subclass creates and calls in `heads`.

    Engines call a model as `model(features, training=..., heads_only=True, execution=...)`.

    Args:
        config: shape of the model.
        attention: how attention is computed, as in `AlbertEncoder`.
        classifier_dropout: dropout rate of the heads in training; None for heads without dropout.
        **kwargs: `dtype` and other arguments of `keras.Model`.

    Attributes:
        reads: what the heads read: "sequence_output", "pooled_output", or the name of a feature
            with the positions at which they read the sequence output. With `heads_only`, the last
            layer computes nothing else.
        objectives: training with `fit` and without a `loss` has the loss of the first of these of
            which all labels are given, as the commands do.
        targets: label -> output that predicts it, for a `loss` and metrics of Keras. Labels in a
            list or tuple have this order.
    """

    reads: ClassVar[str] = "sequence_output"
    objectives: ClassVar[tuple[Objective, ...]] = ()
    targets: ClassVar[dict[str, str]] = {"label_ids": "logits"}

    def __init__(
        self,
        config: AlbertConfig,
        attention: str | Callable = DEFAULT,
        classifier_dropout: float | None = None,
        **kwargs,
    ):
        super().__init__(config, attention, **kwargs)
        self.classifier_dropout = classifier_dropout
        self.encoder = AlbertEncoder(config, attention=attention, dtype=self.dtype_policy)
        self.built = True  # as subclasses build their heads

    def call(
        self,
        features,
        training: bool = False,
        heads_only: bool = False,
        execution: Execution = PLAIN,
        **on_request: bool,
    ):
        """Compute the outputs of the encoder and of the heads.

        Args:
            features: those of the encoder and those in `feature_names`.
            training: whether dropout is applied.
            heads_only: whether to return the outputs of the heads only, and to compute the last
                layer only where they read it.
            execution: how an engine wants the layers executed.
            **on_request: `output_attentions`, `output_embeddings` and `output_hidden_states`, as
                in `AlbertEncoder.call`; not with `heads_only`.

        Returns:
            Dictionary of the outputs of `heads`; without `heads_only`, also those of the encoder.

        Raises:
            InputError: If outputs are requested together with `heads_only`.
        """
        requested = [name for name, wanted in on_request.items() if wanted]
        if heads_only and requested:
            raise InputError(f"`{requested[0]}`=True: cannot be combined with `heads_only`=True")
        # Drawn before the encoder draws its own.
        has_dropout = training and self.classifier_dropout is not None
        seed = forward_seed(self.encoder.seed_generator) if has_dropout else None
        inputs = self.encoder_features(features)
        if heads_only and self.reads != "sequence_output":
            positions = features.get(self.reads)
            if positions is None:
                positions = inputs["input_ids"][:, :0]
            encoded = self.encoder.encode_at(inputs, positions, training, execution)
        else:
            encoded = self.encoder(inputs, training=training, execution=execution, **on_request)
        outputs = self.heads(encoded, features, seed, execution.kernels)
        return outputs if heads_only else {**encoded, **outputs}

    def heads(self, encoded, features, seed, kernels: Kernels) -> dict[str, Any]:
        """Compute the outputs of the heads.

        Args:
            encoded: outputs of the encoder. Where the last layer is computed at the positions in
                the feature `reads` only, those of `AlbertEncoder.encode_at`, else all.
            features: as of `call`.
            seed: `[2]` seed of `classifier_dropout`, None in inference.
            kernels: plain or fused kernels.
        """
        raise NotImplementedError

    def linear_head(self, outputs: int, name: str) -> LinearHead:
        """Create a head with some logits for each row of an encoder's output."""
        if outputs < 1:
            raise InputError(f"`num_labels`={outputs}: must be at least 1")
        stddev = self.config.initializer_range
        head = LinearHead(outputs, stddev, name=name, dtype=self.dtype_policy)
        head.build((None, self.config.hidden_size))
        return head

    def drop(self, inputs, seed):
        """Apply the dropout of the heads, in the last site of a forward pass: none overlaps."""
        return dropout(inputs, self.classifier_dropout or 0.0, seed, site=SITES - 1)

    def encoder_features(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Return the features of the encoder, `[sequences, seq]`, as many as examples have."""
        names = (*ENCODER_FEATURES, *ROW_FEATURES)
        found = {name: features[name] for name in names if name in features}
        if self.encoder_rank == 2:
            return found
        return {name: ops.reshape(each, (-1, ops.shape(each)[-1])) for name, each in found.items()}

    def get_config(self):
        rate = self.classifier_dropout
        own = {} if rate is None else {"classifier_dropout": rate}
        return {**super().get_config(), **own}

    def target_of(self, labels) -> str:
        """Return the name of labels that `fit` gets as an array; for models with one output."""
        return next(iter(self.targets))

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        """Compute the loss of a batch, as `keras.Model.compute_loss`.

        `sample_weight` `[batch]` weights the examples; the loss of an objective is their weighted
        mean.

        Raises:
            InputError: If labels are missing or unknown.
        """
        # Heads that do not read the pooled output give the pooler a gradient of zero, as engines
        # do. Without one, Keras on TensorFlow warns and leaves the pooler out of weight decay.
        nothing = 0.0 * ops.sum(ops.cast(y_pred["pooled_output"], "float32"))
        if self.loss is not None:
            y, y_pred = self._paired(x, y, y_pred)
            return super().compute_loss(x, y, y_pred, sample_weight, training) + nothing
        batch = {**renamed(x), **self._named(y)}
        if sample_weight is not None:
            if isinstance(sample_weight, (Mapping, list, tuple)):
                raise InputError(
                    "`sample_weight`: must be one array [batch], unless `compile` gets a `loss`"
                )
            batch["is_real_example"] = ops.reshape(sample_weight, (-1,))
        objective = self._objective(batch)
        return objective.loss(objective.sums(y_pred, batch), objective.weights(batch)) + nothing

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        """Update the metrics, as `keras.Model.compute_metrics`."""
        if self._compile_metrics is not None:
            y, y_pred = self._paired(x, y, y_pred)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def predict_step(self, *args):
        """Run one step of `predict`, which returns the outputs of the heads only."""
        results = super().predict_step(*args)
        # On JAX, variables follow the outputs.
        outputs, *state = results if isinstance(results, tuple) else (results,)
        outputs = {name: each for name, each in outputs.items() if name not in _ENCODER_OUTPUTS}
        return (outputs, *state) if state else outputs

    def _named(self, y) -> dict[str, Any]:
        if y is None:
            return {}
        by_output = {output: label for label, output in self.targets.items()}
        if isinstance(y, Mapping):
            if len(by_output) < len(self.targets) and set(y) & set(by_output):
                return {self.target_of(values): values for values in y.values()}
            return {str(by_output.get(n, n)): values for n, values in y.items()}
        if isinstance(y, (list, tuple)):
            if len(y) != len(self.targets):
                raise InputError(f"`y`: contains {len(y)} arrays, but must be {self._wanted}")
            return dict(zip(self.targets, y, strict=True))
        if len(by_output) > 1:
            raise InputError(f"`y`: is one array, but must be {self._wanted}")
        name = self.target_of(y)
        is_column = name != "label_sets" and len(y.shape) == 2 and y.shape[1] == 1
        return {name: ops.reshape(y, (-1,)) if is_column else y}

    def _paired(self, x, y, y_pred):
        """Return labels and the outputs that predict them, as two tensors or two dictionaries."""
        labels = {**renamed(x), **self._named(y)}
        paired = {
            output: labels[label] for label, output in self.targets.items() if label in labels
        }
        if not paired:
            raise InputError(f"`y`: must be {self._wanted}")
        if len(set(self.targets.values())) == 1:
            ((output, values),) = paired.items()
            return values, y_pred[output]
        return paired, {output: y_pred[output] for output in paired}

    def _objective(self, batch: Mapping[str, Any]) -> Objective:
        for objective in self.objectives:
            if all(name in batch for name in objective.labels):
                return objective
        kind = type(self).__name__
        needed = " or ".join(", ".join(objective.labels) for objective in self.objectives)
        if not needed:
            raise InputError(f"`loss`: must be given to `compile`, as {kind} has no own loss")
        raise InputError(f"`y`: the loss of {kind} needs {needed}")

    @property
    def _wanted(self) -> str:
        return f"{type(self).__name__}'s labels {', '.join(self.targets)}, in this order or by name"

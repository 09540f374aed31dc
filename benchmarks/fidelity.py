"""How far this code's numbers are from the original's: the table of docs/fidelity.md.

    python -m benchmarks.fidelity --golden=../shared/golden
    KERAS_BACKEND=jax python -m benchmarks.fidelity --golden=../shared/golden

Prints a line of a table for everything that the reference arrays hold of the model and the
optimizers: the largest absolute difference, and for weights after training steps the largest
difference relative to the variable's largest value.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator

import numpy as np
from scipy.special import log_softmax

from albert_tf.options import command, option


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    golden: str = option(help="Folder of reference arrays.")


def run(options: Options) -> None:
    print("| compared | largest difference |\n|---|---|")
    for part in (_originals, _optimizers, _huggingface):
        for what, difference in part(options.golden):
            print(f"| {what} | {difference:.1e} |", flush=True)


def _difference(actual, expected) -> float:
    return float(np.abs(np.asarray(actual) - expected).max())


def _originals(golden: str) -> Iterator[tuple[str, float]]:
    from albert_tf.modeling.losses import PretrainingObjective
    from tests.support.backends import forward, gradient_function

    objective = PretrainingObjective()
    for name in ("tiny", "groups2", "nomap"):
        folder = os.path.join(golden, f"google_tf1_{name}")
        model = _original_model(folder)
        inputs, expected, gradients = (
            dict(np.load(os.path.join(folder, f"{part}.npz")))
            for part in ("inputs", "outputs", "gradients")
        )
        outputs = forward(model, inputs)
        layers = outputs["encoder_outputs"]
        yield (
            f"{name}: {len(layers)} layer outputs",
            max(_difference(x, expected[f"encoder_layer_{i:02d}"]) for i, x in enumerate(layers)),
        )
        yield (
            f"{name}: pooled output",
            _difference(outputs["pooled_output"], expected["pooled_output"]),
        )
        log_probs = log_softmax(outputs["masked_lm_logits"], axis=-1)
        yield (
            f"{name}: log probabilities of masked tokens",
            _difference(
                log_probs.reshape(-1, log_probs.shape[-1]), expected["masked_lm_log_probs"]
            ),
        )
        yield (
            f"{name}: log probabilities of sentence order",
            _difference(
                log_softmax(outputs["sentence_order_logits"], axis=-1),
                expected["sentence_order_log_probs"],
            ),
        )

        def loss(outputs, batch):
            sums, weights = objective.sums(outputs, batch), objective.weights(batch)
            total = objective.loss(sums, weights)
            return total, {"total_loss": total}

        losses, found = gradient_function(model, loss)(inputs)
        yield f"{name}: loss", _difference(losses["total_loss"], expected["total_loss"])
        yield (
            f"{name}: gradients",
            max(
                _difference(gradient, gradients[weight.path])
                for gradient, weight in zip(found, model.trainable_variables, strict=True)
            ),
        )


def _original_model(folder: str):
    from albert_tf import AlbertConfig, AlbertForPreTraining

    config = AlbertConfig.from_json_file(os.path.join(folder, "albert_config.json"))
    model = AlbertForPreTraining(config)
    variables = np.load(os.path.join(folder, "variables.npz"))
    for weight in model.weights:
        weight.assign(variables[weight.path])
    return model


def _optimizers(golden: str) -> Iterator[tuple[str, float]]:
    from albert_tf.modeling.losses import PretrainingObjective
    from albert_tf.optimization import create_optimizer
    from albert_tf.optimization.schedules import WarmupPolynomialDecay
    from tests.support.backends import gradient_function, update_function

    objective = PretrainingObjective()

    def loss(outputs, batch):
        total = objective.loss(objective.sums(outputs, batch), objective.weights(batch))
        return total, {}

    for name in ("lamb", "adamw"):
        folder = os.path.join(golden, f"google_{name}_tiny")
        with open(os.path.join(folder, "run.json")) as file:
            settings = json.load(file)
        model = _original_model(os.path.join(golden, "google_tf1_tiny"))
        schedule = WarmupPolynomialDecay(
            settings["init_lr"], settings["num_train_steps"], settings["num_warmup_steps"]
        )
        optimizer = create_optimizer(name, schedule, global_clipnorm=settings["clip_norm"])
        update = update_function(optimizer, model.trainable_variables)
        gradients_of = gradient_function(model, loss)
        batches = dict(np.load(os.path.join(folder, "batches.npz")))
        for step in range(settings["steps"]):
            update(gradients_of({key: values[step] for key, values in batches.items()})[1])
        final = np.load(os.path.join(folder, "final_variables.npz"))
        relative = {
            weight.path: _difference(weight.numpy(), final[weight.path])
            / np.abs(final[weight.path]).max()
            for weight in model.weights
        }
        yield f"{name}: weights after {settings['steps']} steps, relative", max(relative.values())


def _huggingface(golden: str) -> Iterator[tuple[str, float]]:
    from albert_tf import AlbertConfig, load_weights
    from tests.modeling.test_huggingface_outputs import FEATURES, MODELS
    from tests.support.backends import forward

    for name, (create, logits, _) in MODELS.items():
        folder = os.path.join(golden, f"hf_tiny_{name}")
        model = create(AlbertConfig.from_json_file(os.path.join(folder, "config.json")))
        load_weights(model, folder)
        inputs, expected = (
            dict(np.load(os.path.join(folder, f"{part}.npz"))) for part in ("inputs", "outputs")
        )
        features = {ours: inputs[theirs] for theirs, ours in FEATURES.items()}
        shape = inputs["input_ids"].shape
        features["masked_lm_positions"] = np.broadcast_to(np.arange(shape[-1]), shape)
        outputs = forward(model, features)
        yield (
            f"Hugging Face, {name}: logits",
            max(_difference(outputs[ours], expected[theirs]) for theirs, ours in logits.items()),
        )


cli = command(Options, run)

if __name__ == "__main__":
    cli()

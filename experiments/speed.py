"""Speed of training steps, measured in rounds."""

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.flops import pretraining_flops
from benchmarks.comparison import Case, Options, Suite, compare
from benchmarks.implementations.workload import Workload
from experiments.scales import Scale

IMPLEMENTATIONS = {"tensorflow": "albert_tf", "jax": "albert_tf on JAX, fused attention"}
ROUNDS = 5


def measured_here(
    scale: Scale, model: AlbertConfig, reference: AlbertConfig, shape: tuple[int, int], engine: str
) -> dict[str, list[float]]:
    """Return `sequences_per_second` of training steps in each round, and their `relative_speed`.

    That is a multiple of the reference's.

    Args:
        scale: precision and number of predictions.
        model, reference: what is measured, and next to it what it is compared with.
        shape: (sequences, tokens) in a step.
        engine: "tensorflow" or "jax".

    Raises:
        InputError: If one of the two could not be measured, for lack of memory for example.
    """
    batch, length = shape
    predictions = scale.data["max_predictions_per_seq"]
    dtype = scale.training.get("dtype", "float32")
    cases = [
        Case(
            name,
            IMPLEMENTATIONS[engine],
            Workload("pretraining", config.to_dict(), batch, length, predictions, dtype),
            pretraining_flops(config, length, predictions),
            f"{batch} x {length}",
        )
        for name, config in (("reference", reference), ("model", model))
    ]
    suite, left_out = Suite(Options(repeats=ROUNDS)), {}
    measurements = compare(suite, "speed", cases, left_out)
    suite.progress.clear()
    if left_out:
        raise InputError(f"speed: {'; '.join(left_out.values())}")
    theirs, ours = ([each.amount / seconds for seconds in each.seconds] for each in measurements)
    multiples = [own / other for own, other in zip(ours, theirs, strict=True)]
    return {"sequences_per_second": ours, "relative_speed": multiples}

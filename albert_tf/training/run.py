"""What pretraining and fine-tuning have in common: from options to a trained model in a folder."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator

import keras
import tensorflow as tf

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.engines.tensorflow import workers
from albert_tf.engines.tensorflow.checkpoints import Checkpoints, chosen_newest, readable
from albert_tf.engines.tensorflow.replicas import check_replicas
from albert_tf.engines.tensorflow.step import TrainStep
from albert_tf.engines.tensorflow.strategy import Batches, create_strategy, describe, per_replica
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists, folder_of_one, matches, write_bytes, write_text
from albert_tf.flops import encoder_flops
from albert_tf.hardware.peaks import peak_flops
from albert_tf.interop.companions import RESULTS_FILE
from albert_tf.interop.formats import load_weights, open_weights
from albert_tf.interop.tensorflow_checkpoints import find_checkpoint
from albert_tf.interop.weights import config_differences
from albert_tf.modeling.losses import Objective
from albert_tf.optimization import create_optimizer
from albert_tf.optimization.schedules import create_schedule
from albert_tf.training.advice import what_to_try
from albert_tf.training.evaluation import PeriodicEvaluation
from albert_tf.training.health import Health, Workload
from albert_tf.training.loop import train
from albert_tf.training.options import TrainingOptions


def prepare(
    options: TrainingOptions, config: AlbertConfig | None = None
) -> tuple[AlbertConfig, tf.distribute.Strategy]:
    """Checks what the options name, makes the strategy and sets the seed; writes nothing.

    Args:
        options: of the program.
        config: of the model; None for that of `--albert_config_file`.

    Raises:
        InputError: something named is missing, out of range or contradicts the output folder.
    """
    options.check()
    config = config or AlbertConfig.from_json_file(options.albert_config_file)
    if options.max_seq_length > config.max_position_embeddings:
        raise InputError(
            f"--max_seq_length={options.max_seq_length}: "
            f"{options.albert_config_file or 'the config of the model'} has "
            f"max_position_embeddings {config.max_position_embeddings}"
        )
    _check_same_config(config, options)
    strategy = create_strategy(options)
    with workers.losses_named(), workers.everyone():
        if options.init_checkpoint:
            with arguments_renamed(path="init_checkpoint", weights="init_checkpoint"):
                weights = open_weights(options.init_checkpoint, config=config)
                config_differences(config, weights)
        per_replica("eval_batch_size", options.eval_batch_size, strategy)
        micro_batches(options, strategy)
    print(describe(strategy))
    keras.utils.set_random_seed(options.random_seed)
    return config, strategy


def _check_same_config(config: AlbertConfig, options: TrainingOptions) -> None:
    """Refuses a folder that holds another model."""
    path = f"{options.output_dir}/{CONFIG_FILE}"
    if not exists(path):
        return
    there = dataclasses.asdict(AlbertConfig.from_json_file(path))
    for name, value in dataclasses.asdict(config).items():
        if name == "parameter_sharing" and not {there[name], value} & {"attention", "ffn"}:
            continue  # the number of groups says the same
        if name.endswith("dropout_prob") and not options.do_train:
            continue
        if there[name] != value:
            raise InputError(
                f"--output_dir={options.output_dir}: holds a model with {name}={there[name]}, "
                f"{_source_of_config(options)} says {value}"
            )


def _source_of_config(options: TrainingOptions) -> str:
    if options.albert_config_file:
        return f"--albert_config_file={options.albert_config_file}"
    return "what the flags give"


def micro_batches(options: TrainingOptions, strategy: tf.distribute.Strategy) -> int:
    """Parts into which a replica's share of the training batch is split.

    Raises:
        InputError: the batch does not divide by replicas or micro-batches.
    """
    share = per_replica("train_batch_size", options.train_batch_size, strategy)
    size = options.micro_batch_size or share
    if share % size:
        raise InputError(
            f"--micro_batch_size={size}: does not divide the {share} examples that "
            f"--train_batch_size={options.train_batch_size} gives each device"
        )
    return share // size


@contextlib.contextmanager
def training_folder(options: TrainingOptions) -> Iterator[None]:
    """Keeps other programs from training in `--output_dir`; evaluation alone only reads there.

    Of several workers the chief does so; it ends when all are done.

    Raises:
        InputError: the folder cannot be created or written, or another process has it.
        WorkerLost: another worker has ended before its work was done.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(workers.losses_named())
        with workers.everyone():
            if options.do_train and workers.is_chief():
                stack.enter_context(folder_of_one(options.output_dir, "output_dir"))
        yield
        with workers.everyone():
            pass
        workers.linger()


def create_step(
    model: keras.Model,
    objective: Objective,
    strategy: tf.distribute.Strategy,
    options: TrainingOptions,
    within_xla: bool = False,
) -> TrainStep:
    """The training step, with its optimizer, that the options describe; arguments as there.

    Raises:
        InputError: the batch does not divide by replicas or micro-batches.
    """
    with strategy.scope():
        schedule = create_schedule(options.schedule, **options.schedule_arguments())
        optimizer = create_optimizer(
            options.optimizer,
            schedule,
            weight_decay_rate=options.weight_decay_rate,
            bias_correction=options.bias_correction,
        )
    return TrainStep(
        model,
        optimizer,
        objective,
        strategy,
        micro_batches=micro_batches(options, strategy),
        clip_norm=options.clip_norm,
        seed=options.random_seed,
        remat=options.remat,
        jit_compile=options.jit_compile,
        within_xla=within_xla,
    )


def train_model(
    model: keras.Model,
    objective: Objective,
    batches_from: Callable[[int], Batches],
    strategy: tf.distribute.Strategy,
    options: TrainingOptions,
    flops_per_example: float,
    description: dict[str, str | bytes] | None = None,
    evaluation: PeriodicEvaluation | None = None,
) -> None:
    """Trains a model in `--output_dir`, which is this process's alone (`folder_of_one`).

    Goes on from the newest checkpoint there, else starts from `--init_checkpoint`, else from the
    model's initial weights, and says which.

    Args:
        model: made under the strategy's scope.
        objective: what is minimised.
        batches_from: global batches of an uninterrupted run (see `distribute`), from a given step
            on.
        strategy: where it runs.
        options: everything else.
        flops_per_example: operations of the model on an example of the full length, forward and
            backward.
        description: file name -> content of what is to stand beside the checkpoints, besides the
            model's config; written when nothing can be wrong with the input any more.
        evaluation: to run in the course of training; None for none.
    """
    step = create_step(model, objective, strategy, options)
    checkpoints = Checkpoints(
        options.output_dir,
        model,
        step.optimizer,
        keep=options.keep_checkpoint_max,
        keep_every_n_hours=options.keep_checkpoint_every_n_hours,
    )
    with workers.everyone():
        if workers.is_chief():
            checkpoints.remove_unfinished()
    if checkpoints.restore_latest():
        print(f"resuming from {checkpoints.latest}")
    elif options.init_checkpoint:
        with workers.everyone():
            initialize(model, options.init_checkpoint, options.init_from_group0)
    else:
        print("starting from random weights")
    check_replicas(strategy, step.variables, int(step.optimizer.iterations.numpy()))
    write_description(options.output_dir, model.config, description or {})
    on_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    train(
        step,
        batches_from,
        checkpoints,
        options.output_dir,
        Health(objective, options.max_nonfinite_steps, what_to_try(options)),
        Workload(
            options.train_batch_size,
            options.max_seq_length,
            flops_per_example,
            peak_flops(strategy, options.peak_tflops),
            functools.partial(encoder_flops, model.config),
        ),
        num_train_steps=options.num_train_steps,
        save_checkpoints_steps=options.save_checkpoints_steps,
        iterations_per_loop=options.iterations_per_loop or (1000 if on_tpu else 10),
        evaluation=evaluation,
    )


def write_description(
    folder: str, config: AlbertConfig, description: dict[str, str | bytes]
) -> None:
    """Writes a model's config and other files, by name, into a folder.

    Of several workers the chief does so.
    """
    with workers.everyone():
        if not workers.is_chief():
            return
        for name, content in {CONFIG_FILE: config.to_json(), **description}.items():
            write = write_text if isinstance(content, str) else write_bytes
            write(f"{folder}/{name}", content)


def initialize(model: keras.Model, init_checkpoint: str, init_from_group0: bool = False) -> None:
    """Loads `--init_checkpoint` and says how much of it and of the model matched."""
    with arguments_renamed(path="init_checkpoint"):
        matched = load_weights(model, init_checkpoint, init_from_group0=init_from_group0)
    fresh = f"; left at initial values: {', '.join(matched.missing)}" if matched.missing else ""
    unused = f"; not used: {', '.join(matched.unused)}" if matched.unused else ""
    print(
        f"{matched.source}: {len(matched.loaded)} of {len(model.weights)} variables "
        f"loaded{fresh}{unused}"
    )
    for note in matched.notes:
        print(note)


def restore_trained(model: keras.Model, output_dir: str, path: str | None = None) -> int:
    """Loads a checkpoint of a folder into the model that was trained there.

    Args:
        model: of the same kind.
        output_dir: the folder.
        path: of the checkpoint; None for the newest.

    Returns:
        Its step.

    Raises:
        InputError: there is none, or it is of another model.
    """
    path = path or chosen_newest(output_dir) or find_checkpoint(output_dir, "output_dir")
    return _restore(model, path, output_dir)


def restore_each(model: keras.Model, output_dir: str) -> Iterator[int]:
    """Loads one checkpoint of a folder after the other into the model that was trained there.

    Yields:
        The step of each, rising.

    Raises:
        InputError: there is none that can be read, or one is of another model.
    """
    paths = iter(workers.from_chief(lambda: list(readable(output_dir))))
    path = next(paths, None) or find_checkpoint(output_dir, "output_dir")
    while path is not None:
        yield _restore(model, path, output_dir)
        path = next(paths, None)


def _restore(model: keras.Model, path: str, output_dir: str) -> int:
    with workers.everyone(), arguments_renamed(path="output_dir"):
        matched = load_weights(model, path)
    if matched.missing:
        raise InputError(
            f"`output_dir`={output_dir}: {matched.source} lacks {', '.join(matched.missing)}; it "
            "was trained for something else"
        )
    print(f"{matched.source}: all {len(matched.loaded)} variables loaded")
    return _step_of(path)


def check_trained(output_dir: str) -> None:
    """Raises InputError for a folder without a checkpoint; reads none."""
    if not matches(f"{output_dir}/*.index"):
        find_checkpoint(output_dir, "output_dir")


def trained_step(output_dir: str) -> int:
    """Step of the newest checkpoint in a folder.

    Raises:
        InputError: there is none.
    """
    return workers.from_chief(lambda: _step_of(find_checkpoint(output_dir, "output_dir")))


def _step_of(path: str) -> int:
    return int(path.rsplit("-", 1)[-1])


def write_results(output_dir: str, results: dict[str, float]) -> None:
    """Prints `eval_results.txt` and writes it, a line `name = value` each, sorted by name.

    Of several workers the chief does so.
    """
    if not workers.is_chief():
        return
    text = "".join(f"{name} = {results[name]:.8g}\n" for name in sorted(results))
    write_text(f"{output_dir}/{RESULTS_FILE}", text)
    print(text, end="")

"""What pretraining and fine-tuning have in common: from options to a trained model in a folder."""

import contextlib
import dataclasses
import errno
import json
import logging
import uuid
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeVar

import keras

from albert_tf import files
from albert_tf.checkpoints import check_engine, step_of
from albert_tf.checkpoints.saving import Checkpoints
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.engines.base import Engine, create_engine
from albert_tf.engines.device_options import DTYPE_POLICIES
from albert_tf.engines.steps import StepOptions, TrainingStep
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.interop.adjacent_files import results_text
from albert_tf.interop.file_names import RESULTS_FILE
from albert_tf.interop.loading import open_weights
from albert_tf.logs import counted
from albert_tf.modeling.losses import Objective
from albert_tf.optimization import create_optimizer, create_schedule
from albert_tf.training.folder import check_same_config, find_config, start_file, warn_of_changes
from albert_tf.training.options import TrainingOptions
from albert_tf.training.restoring import load_initial_weights, origin_file
from albert_tf.weights import config_differences

_logger = logging.getLogger(__name__)

# The precision in which the model in a folder is trained.
DTYPE_FILE = "dtype.json"

Options = TypeVar("Options", bound=TrainingOptions)


def prepare(
    options: TrainingOptions,
    config: AlbertConfig | None = None,
    engine: Engine | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> tuple[AlbertConfig, Engine]:
    """Create the engine, check what needs it, and set the seed; write nothing.

    The config is by default the one that `find_config` finds; an engine may be of an earlier model
    in this process. `inputs` are what else must be the same for all workers.

    Raises:
        InputError: If an option names something missing, or contradicts the model in the output
            folder, or workers have different inputs.
    """
    config = config or find_config(options)
    config.check_length(options.max_seq_length, options.albert_config_file)
    check_same_config(config, options)
    is_first = engine is None
    engine = engine or create_engine(options.engine, options)
    with engine.workers.losses_reported(), engine.workers.synchronized():
        check_engine(options.output_dir, engine.name)
        if options.init_checkpoint:
            with arguments_renamed(path="init_checkpoint", weights="init_checkpoint"):
                config_differences(config, open_weights(options.init_checkpoint, config=config))
        engine.devices.per_replica("eval_batch_size", options.eval_batch_size)
        micro_batches(options, engine)
    with engine.workers.losses_reported():
        same = {"`albert_config_file`": dataclasses.asdict(config), **(inputs or {})}
        engine.workers.check_same(same)
    if is_first:
        _logger.info("%s", engine.devices.describe())
    engine.set_random_seed(options.random_seed)
    return config, engine


def with_dtype(options: Options, engine: Engine) -> Options:
    """Return the options with the precision that `dtype`="auto" stands for, which is logged.

    It is that of the model in `output_dir`, wherever it was trained. A new model gets the precision
    in which the engine's devices are fastest.

    Raises:
        InputError: If the record in `output_dir` is damaged.
    """
    if options.dtype != "auto":
        return options
    dtype, reason = engine.workers.from_chief(lambda: _find_dtype(options, engine))
    _logger.info("`dtype`=auto: %s, since %s", dtype, reason)
    return dataclasses.replace(options, dtype=dtype)


def _find_dtype(options: TrainingOptions, engine: Engine) -> tuple[str, str]:
    path = f"{options.output_dir}/{DTYPE_FILE}"
    if not files.exists(path):
        return engine.devices.preferred_dtype()
    dtype = files.read_json(path, dict[str, str]).get("dtype", "")
    if dtype not in DTYPE_POLICIES:
        raise InputError(f"{path}: dtype={dtype!r}: must be one of {', '.join(DTYPE_POLICIES)}")
    return dtype, f"the model in {options.output_dir} is trained in it"


def micro_batches(options: TrainingOptions, engine: Engine) -> int:
    """Return number of parts into which each replica splits its share of `train_batch_size`.

    Raises:
        InputError: If the batch of a stage does not divide by the replicas or the micro-batches.
    """
    for batch_size, _, parts, _ in options.stages:
        name = "train_batch_size" if parts == 1 else "batch_size_warmup"
        share = engine.devices.per_replica(name, batch_size)
        size = options.micro_batch_size or share
        # A share below the size for which there is memory is computed as a whole.
        if share % size and (parts == 1 or share > size):
            raise InputError(
                f"`micro_batch_size`={size}: does not divide the {counted(share, 'example')} that "
                f"`{name}`={batch_size} gives each device"
            )
    return share // size


@contextlib.contextmanager
def training_folder(options: TrainingOptions, engine: Engine) -> Iterator[None]:
    """Keep other programs from training in `output_dir`, and check that results can be written.

    Of several workers, the chief locks the folder until all are done.

    Raises:
        InputError: If the folder cannot be created or written, or another process has locked it.
        WorkerLost: If another worker has died.
    """
    workers = engine.workers
    # Predictions of standard input go elsewhere.
    predicts = getattr(options, "do_predict", False) and not getattr(options, "streams", False)
    with contextlib.ExitStack() as stack:
        stack.enter_context(workers.losses_reported())
        with workers.synchronized():
            if options.do_train and workers.is_chief:
                stack.enter_context(files.folder_of_one(options.output_dir, "output_dir"))
            elif workers.is_chief and predicts:
                files.make_folder(options.output_dir, "output_dir")
        if options.do_train and workers.count > 1:
            _check_shared(options.output_dir, workers)
        yield
        with workers.synchronized():
            pass
        workers.linger()


def _check_shared(folder: str, workers: Workers) -> None:
    """Raise InputError if the folder, whatever its name, is not the chief's."""

    def write() -> list[str]:
        name = f".shared-{uuid.uuid4().hex}"
        files.write_text(f"{folder}/{name}", "")
        return [name, folder]

    name, chiefs = workers.from_chief(write)
    with workers.synchronized():
        own = chiefs if files.exists(f"{folder}/{name}") else f"{folder}, another folder,"
    workers.check_same({"`output_dir`": own})
    if workers.is_chief:
        files.remove(f"{folder}/{name}")


def create_training_step(
    engine: Engine, model: keras.Model, objective: Objective, options: TrainingOptions
) -> TrainingStep:
    """Return the training step that the options describe, with its optimizer and schedule.

    Raises:
        InputError: If the batch does not divide by the replicas or the micro-batches.
    """
    with engine.devices.scope():
        schedule = create_schedule(options.schedule, **options.schedule_arguments())
        arguments = options.optimizer_arguments(model.config)
        optimizer = create_optimizer(options.optimizer, schedule, **arguments)
    parts = micro_batches(options, engine)
    step_options = StepOptions(parts, options.clip_norm, options.random_seed, options.remat)
    return engine.training_step(model, optimizer, objective, engine.devices, step_options)


def restore(
    engine: Engine,
    training_step: TrainingStep,
    options: TrainingOptions,
    description: Mapping[str, str | bytes],
    data: str = "",
    teacher: str = "",
) -> Checkpoints:
    """Load what training continues or starts from, in `output_dir`, which must be locked.

    This is the latest valid checkpoint, with its optimizer state and step; else `init_checkpoint`,
    at step 0; else the model's initial weights. Return what saves the training step.

    Args:
        engine, training_step: get the weights.
        options: of the program.
        description: file name -> content of files to write next to the checkpoints, in addition to
            the model's config, once all input is known to be valid.
        data, teacher: as of `start_file`.
    """
    folder = engine.checkpoints_in(options.output_dir)
    kept = options.keep_checkpoint_max, options.keep_checkpoint_every_n_hours, options.steps_to_save
    checkpoints = Checkpoints(folder, training_step, engine.workers, *kept)
    with engine.workers.synchronized():
        if engine.workers.is_chief:
            folder.remove_unfinished()
    origin: dict[str, str | bytes] = {}
    if checkpoints.restore_latest():
        _logger.info("resuming from %s", checkpoints.latest)
        step = training_step.step
        engine.workers.from_chief(lambda: warn_of_changes(options, data, step, teacher))
    elif options.init_checkpoint:
        with engine.workers.synchronized():
            load_initial_weights(
                training_step.model, options.init_checkpoint, options.init_from_group0
            )
        origin = origin_file(options.init_checkpoint)
    else:
        _logger.info("starting from random weights")
    _warn_of_steps(training_step.step, options, list(map(step_of, folder.all())))
    training_step.check_replicas()
    dtype = json.dumps({"dtype": options.dtype}) + "\n"
    more = {**description, **origin, DTYPE_FILE: dtype, **start_file(options, data, teacher)}
    write_description(engine, options.output_dir, training_step.model.config, more)
    return checkpoints


def _warn_of_steps(step: int, options: TrainingOptions, saved: Collection[int]) -> None:
    missed = [each for each in options.steps_to_save if each <= step and each not in saved]
    if missed:
        message = "`save_steps`: not saved, as training resumes from step %d: %s"
        _logger.warning(message, step, ", ".join(map(str, missed)))
    total, warmup = options.num_train_steps, options.start_warmup_step + options.num_warmup_steps
    if step > total:
        message = "%s is already at step %d, beyond step %d, at which training ends"
        _logger.warning(message, options.output_dir, step, total)
    elif warmup > total:
        message = (
            "the warm-up lasts until step %d, but training ends at step %d, before the learning "
            "rate has reached its peak"
        )
        _logger.warning(message, warmup, total)


def write_description(
    engine: Engine, folder: str, config: AlbertConfig, description: dict[str, str | bytes]
) -> None:
    """Write a model's config and other files, by name, into a folder; only the chief does so."""
    with engine.workers.synchronized():
        if engine.workers.is_chief:
            files.write_files(folder, {CONFIG_FILE: config.to_json(), **description})


def write_results(engine: Engine, output_dir: str, results: dict[str, float]) -> None:
    """Print `eval_results.txt` and write it: lines `name = value`, sorted by name.

    Only the chief does so.
    """
    if not engine.workers.is_chief:
        return
    text = results_text(results)
    _logger.info("%s", text.rstrip("\n"))
    with unless_read_only():
        files.write_text(f"{output_dir}/{RESULTS_FILE}", text)


@contextlib.contextmanager
def unless_read_only() -> Iterator[None]:
    """Write what was printed, too; only warn where files can be read but not written."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES):
            raise
        _logger.warning("not written: %s: %s", error.filename, error.strerror)

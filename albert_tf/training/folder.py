"""What the output folder of a run says about the runs before it; loads no framework."""

import dataclasses
import logging
import os
from typing import Any

from albert_tf.checkpoints import engines_in
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import converted, exists, parse_json, read_json, to_json
from albert_tf.input.manifest import record_files
from albert_tf.input.minimal_pairs import read_pairs
from albert_tf.interop.file_names import BEST_FOLDER, START_FILE
from albert_tf.optimization import create_schedule
from albert_tf.training.options import PretrainingOptions, TrainingOptions

_logger = logging.getLogger(__name__)


def named_config(options: TrainingOptions) -> AlbertConfig | None:
    """Return the config in `albert_config_file`, else in `output_dir`, else None.

    Raises:
        InputError: If it is invalid, or it is missing and there is no `init_checkpoint`.
    """
    if options.albert_config_file:
        return AlbertConfig.from_json_file(options.albert_config_file)
    trained = os.path.join(options.output_dir, CONFIG_FILE)
    if exists(trained):
        return AlbertConfig.from_json_file(trained)
    if options.init_checkpoint:
        return None
    raise InputError(
        "`albert_config_file`: the model's albert_config.json is required, as there is none in "
        f"`output_dir`={options.output_dir}"
    )


def find_config(options: TrainingOptions) -> AlbertConfig:
    """Return the config: `albert_config_file`, `output_dir`'s or `init_checkpoint`'s.

    Raises:
        InputError: If there is none, or it is invalid.
    """
    if config := named_config(options):
        return config
    assert options.init_checkpoint
    from albert_tf.interop.loading import open_weights

    with arguments_renamed(path="init_checkpoint"):
        config = open_weights(options.init_checkpoint).config
    if config is None:
        raise InputError(
            f"`albert_config_file`: required, because there is no {CONFIG_FILE} next to "
            f"{options.init_checkpoint}"
        )
    return config


def check_model(options: TrainingOptions) -> None:
    """Raise the errors of `find_config` that need no weights, and that of a folder without model.

    Raises:
        InputError: If the config is missing or invalid, or `output_dir` has no model to evaluate.
    """
    check_trained_folder(options)
    named_config(options)


def is_trained(folder: str) -> bool:
    """Return whether a folder contains checkpoints, or its best one."""
    return any(engines_in(each) for each in (folder, os.path.join(folder, BEST_FOLDER)))


def check_trained_folder(options: TrainingOptions) -> None:
    """Raise InputError if there is neither training nor a trained model in `output_dir`."""
    if options.do_train or is_trained(options.output_dir):
        return
    raise InputError(
        f"`output_dir`={options.output_dir}: contains no trained model; without `do_train`, name "
        "the folder of one, or set `do_train` to train it first"
    )


def check_early(options: PretrainingOptions) -> None:
    """Check the options of pretraining, the config, and whether the files exist.

    Raises:
        InputError: If an option is invalid, or a file is missing.
    """
    options.check()
    check_model(options)
    for name in ("input_file", "eval_input_file") if options.do_train else ("eval_input_file",):
        if patterns := getattr(options, name):
            record_files(patterns, name)
    if options.eval_pairs:
        read_pairs(options.eval_pairs, "eval_pairs")


def check_same_config(config: AlbertConfig, options: TrainingOptions) -> None:
    """Raise InputError if the model in `output_dir` has another config."""
    path = f"{options.output_dir}/{CONFIG_FILE}"
    # A config alone is of a run that has saved nothing.
    if not (exists(path) and is_trained(options.output_dir)):
        return
    trained = dataclasses.asdict(AlbertConfig.from_json_file(path))
    for name, value in dataclasses.asdict(config).items():
        if name == "parameter_sharing" and not {trained[name], value} & {"attention", "ffn"}:
            continue  # the number of groups implies it
        if name.endswith("dropout_prob") and not options.do_train:
            continue
        if trained[name] != value:
            file = options.albert_config_file
            source = f"`albert_config_file`={file}" if file else "the config that the options give"
            raise InputError(
                f"`output_dir`={options.output_dir}: contains a model with {name}={trained[name]}, "
                f"but {source} has {value}"
            )


@dataclasses.dataclass(frozen=True)
class _Start:
    flags: dict[str, Any]
    training_data: str
    teacher: str = ""


def start_file(options: TrainingOptions, data: str, teacher: str = "") -> dict[str, str]:
    """Return file name -> content of the record of a start.

    `data` identifies what is trained on, and `teacher` the weights of a teacher; "" if unknown.
    """
    start = _Start(_flags(options), data, teacher)
    return {START_FILE: to_json(dataclasses.asdict(start), indent=1, ensure_ascii=False) + "\n"}


def warn_of_changes(options: TrainingOptions, data: str, step: int, teacher: str = "") -> None:
    """Log a line of what has changed since the last start; arguments as of `start_file`.

    Raises:
        InputError: If the record in `output_dir` is damaged.
    """
    path = f"{options.output_dir}/{START_FILE}"
    if not exists(path):
        return
    before = read_json(path, _Start)
    changes = [
        f"`{name}` was {before.flags[name]} and is {value}"
        for name, value in _flags(options).items()
        if before.flags.get(name, value) != value
    ]
    if changes:
        earlier = _last_options(before, options)
        try:
            was, now = _rate(earlier, step), _rate(options, step)
        except (ArithmeticError, LookupError, ValueError) as error:
            raise InputError(f"{path}: has no usable schedule ({error})") from None
        if was != now:
            changes.append(f"the learning rate at step {step} is {now:.3g} instead of {was:.3g}")
    if "" not in (before.training_data, data) and before.training_data != data:
        changes.append("the training data is another")
    if "" not in (before.teacher, teacher) and before.teacher != teacher:
        changes.append("the teacher has other weights")
    if changes:
        _logger.warning("%s: since the last start, %s", options.output_dir, "; ".join(changes))


def last_start(options: TrainingOptions) -> TrainingOptions | None:
    """Return the options of the last start of training in `output_dir`, if it is recorded."""
    path = f"{options.output_dir}/{START_FILE}"
    return _last_options(read_json(path, _Start), options) if exists(path) else None


def _last_options(start: _Start, options: TrainingOptions) -> TrainingOptions:
    known = {name: value for name, value in start.flags.items() if value is not None}
    known["output_dir"] = options.output_dir
    return converted(known, f"{options.output_dir}/{START_FILE}", type(options))


def _flags(options: TrainingOptions) -> dict[str, Any]:
    """Return all options as JSON has them, but the folder and the addresses of its processes."""
    flags = dataclasses.asdict(options)
    for name in ("output_dir", "coordinator_address", "process_id"):
        flags.pop(name, None)
    return parse_json(to_json(flags, default=str), "", dict[str, Any])


def _rate(options: TrainingOptions, step: int) -> float:
    return float(create_schedule(options.schedule, **options.schedule_arguments())(step))

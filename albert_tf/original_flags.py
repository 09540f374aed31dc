"""Flags of the original project's programs that the programs of this project do not have.

A value that changes nothing is accepted. Any other is refused in a line that names a replacement.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import flags


class OriginalFlag(NamedTuple):
    """A flag of the original.

    Attributes:
        replacement: completes "--name=value: "; `{value}` stands for the value.
        accepted: values that change nothing, in lower case; None for all. An empty one always is.
        boolean: whether the flag can be given without a value.
    """

    replacement: str = ""
    accepted: tuple[str, ...] | None = ()
    boolean: bool = False


class ReplacedFlag(Exception):
    """A flag was given whose replacement the message names."""


# Equal products by another operation; an export writes TFLite files from any model.
_USE_EINSUM = OriginalFlag(accepted=None, boolean=True)

_EXPORT_DIR = OriginalFlag(
    "exporting is a program of its own: omit the flag and, after training, run `python "
    "export_saved_model.py --init_checkpoint=OUTPUT_DIR --export_path={value}`"
)

PRETRAINING = {
    "export_dir": _EXPORT_DIR,
    "masked_lm_budget": OriginalFlag(
        "omit the flag; to draw masks in training, make the data with `python -m "
        "data_prep.create_pretraining_data --masking=dynamic`",
        accepted=("0", "0.0"),
    ),
}

CLASSIFIER = {
    "export_dir": _EXPORT_DIR,
    "threshold_to_export": OriginalFlag(
        "exports return probabilities without a threshold; omit the flag and compare them with "
        "{value} where they are used",
        accepted=("nan",),
    ),
    "use_pooled_output": OriginalFlag(
        "the classifier always uses the pooled output of [CLS]; omit the flag",
        accepted=("true", "1"),
        boolean=True,
    ),
}

SQUAD = {
    "export_dir": _EXPORT_DIR._replace(
        replacement=f"{_EXPORT_DIR.replacement}; --tflite_lengths=384 also writes TFLite files"
    ),
    "use_einsum": _USE_EINSUM,
    "verbose_logging": OriginalFlag(accepted=None, boolean=True),
    # Caches of features, which are computed in memory.
    "train_feature_file": OriginalFlag(accepted=None),
    "predict_feature_file": OriginalFlag(accepted=None),
    "predict_feature_left_file": OriginalFlag(accepted=None),
}

PRETRAINING_DATA = {
    "input_file_mode": OriginalFlag(
        "files are read as UTF-8 text; omit the flag", accepted=("r", "rb")
    ),
    "parallel": OriginalFlag(
        "--num_processes sets the number of processes, by default one per core; omit the flag",
        accepted=("false", "0"),
        boolean=True,
    ),
}

EXPORT = {
    "albert_directory": OriginalFlag(
        "weights are named by --init_checkpoint={value}/model.ckpt-best, or by the folder alone"
    ),
    "checkpoint_name": OriginalFlag("the checkpoint is named by --init_checkpoint=FOLDER/{value}"),
    "use_einsum": _USE_EINSUM,
}


def define_original_flags(
    original: Mapping[str, OriginalFlag], flag_values: flags.FlagValues
) -> None:
    """Define the flags, which only `--helpfull` lists.

    Parsing one with a value that is not accepted raises `ReplacedFlag`.
    """
    for name, flag in original.items():
        flags.DEFINE_flag(_Flag(name, flag), flag_values, module_name=__name__)


class _Flag(flags.Flag):
    def __init__(self, name: str, original: OriginalFlag):
        replacement = original.replacement.format(value="VALUE")
        help = f"Of the original{f': {replacement}' if replacement else '; changes nothing.'}"
        parser = flags.BooleanParser() if original.boolean else flags.ArgumentParser()
        super().__init__(parser, None, name, None, help, boolean=original.boolean)
        self._original = original

    def parse(self, argument: Any) -> None:
        super().parse(argument)
        text, original = str(self.value), self._original
        if text and original.accepted is not None and text.lower() not in original.accepted:
            replacement = original.replacement.format(value=text)
            raise ReplacedFlag(f"--{self.name}={argument}: {replacement}")

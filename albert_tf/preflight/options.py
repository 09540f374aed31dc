"""Flags of the preflight; loads neither TensorFlow nor JAX."""

import dataclasses
from typing import Any

from albert_tf.errors import InputError
from albert_tf.input.features import Feature, pretraining_features, row_features
from albert_tf.options import check_limits, option
from albert_tf.training.options import PretrainingOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreflightOptions(PretrainingOptions):
    """Flags of run_pretraining.py, so that its flag files can be used, and of the preflight."""

    albert_config_file: str = option(help="The model's albert_config.json.")
    input_file: tuple[str, ...] = option(
        (),
        "TFRecord files to train on. If they are on this machine, their manifests tell whether "
        "they have rows (--pack_rows), how long an epoch is, and how long it would be with rows.",
        group="Data",
        common=True,
    )
    output_dir: str = option("", "Not used.")
    max_seq_length: int = option(512, "Length of an example, in tokens.")
    max_predictions_per_seq: int = option(20, "Masked tokens per example.")
    devices: str | None = option(
        None,
        "TPU slice: generation and shape in chips (v3:16x16), or accelerator type (v3-512). Or "
        "GPUs: h100x8 for a machine with eight, h100x8x4 for four such machines.",
        aliases=("topology",),
        group="Devices",
        common=True,
    )
    all_topologies: bool = option(False, "Print a table of all known slices.", common=True)
    micro_batch_sizes: tuple[str, ...] = option(
        (),
        "Micro-batch sizes to compile; by default the powers of two that divide a device's share "
        "of the batch and fit in its memory.",
        common=True,
    )
    price_per_hour: float = option(
        0.0, "Price of all devices for an hour, to print that of the run.", minimum=0, common=True
    )
    compile_minutes: float = option(
        60.0, "Time limit for compiling one program, in minutes.", minimum=0
    )

    def check(self) -> None:
        """Raise InputError if a value is out of range or options contradict each other."""
        check_limits(self)
        self.pretraining(self.micro_batch_size).check()
        if bool(self.devices) == self.all_topologies:
            raise InputError(
                "set either `devices` (such as v3:16x16 or h100x8) or `all_topologies`"
            )
        self.sizes()

    def sizes(self) -> list[int]:
        """Return the requested micro-batch sizes in ascending order; [] for the default."""
        one = (str(self.micro_batch_size),) if self.micro_batch_size else ()
        asked = self.micro_batch_sizes or one
        for size in asked:
            if not size.isdecimal() or int(size) < 1:
                raise InputError(f"`micro_batch_sizes`={size}: must be whole numbers, such as 4,8")
        return sorted({int(size) for size in asked})

    def pretraining(self, micro_batch_size: int, **changes: Any) -> PretrainingOptions:
        """Return the options of the training run with another micro-batch size."""
        names = [field.name for field in dataclasses.fields(PretrainingOptions)]
        values = {name: getattr(self, name) for name in names}
        values.update(
            micro_batch_size=micro_batch_size,
            do_train=True,
            do_eval=False,
            input_file=self.input_file or ("not read",),
            output_dir=self.output_dir or "not written",
        )
        return PretrainingOptions(**{**values, **changes})


@dataclasses.dataclass(frozen=True)
class Request:
    """A program, for the process that builds it: `options` of pretraining on so many replicas.

    With `pack_rows`, examples are rows of several (`create_pretraining_data --pack_rows`).
    """

    replicas: int
    options: PretrainingOptions
    pack_rows: bool = False

    @property
    def features(self) -> dict[str, Feature]:
        """What an example of a batch contains."""
        features = row_features if self.pack_rows else pretraining_features
        return features(self.options.max_seq_length, self.options.max_predictions_per_seq)

"""Flags of the preflight; loads neither TensorFlow nor JAX."""

from __future__ import annotations

import dataclasses
from typing import Any

from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.training.options import PretrainingOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreflightOptions(PretrainingOptions):
    """Flags of run_pretraining.py, so that its flagfiles do, and what is asked of the compiler."""

    output_dir: str = option("", "Not used here.")
    topology: str | None = option(
        None, "TPU slice: generation and shape in chips (v3:16x16), or Cloud's name (v3-512)."
    )
    all_topologies: bool = option(False, "A table of all known slices instead of one slice.")
    micro_batch_sizes: tuple[str, ...] = option(
        (),
        "Micro-batch sizes to compile; by default 1, 2, 4, ... as far as they divide a device's "
        "share of the batch and fit its memory.",
    )
    compile_minutes: float = option(60.0, "How long one program may take to compile.")

    def check(self) -> None:
        """Raises InputError for values out of range or flags that do not go together."""
        self.pretraining(self.micro_batch_size).check()
        if bool(self.topology) == self.all_topologies:
            raise InputError("give --topology=SLICE (such as v3:16x16) or --all_topologies")
        self._check_minimum("compile_minutes", 0)
        self.sizes()

    def sizes(self) -> list[int]:
        """The micro-batch sizes asked for, in order; empty for all that make sense."""
        one = (str(self.micro_batch_size),) if self.micro_batch_size else ()
        asked = self.micro_batch_sizes or one
        for size in asked:
            if not size.isdecimal() or int(size) < 1:
                raise InputError(f"--micro_batch_sizes={size}: must be whole numbers, such as 4,8")
        return sorted({int(size) for size in asked})

    def pretraining(self, micro_batch_size: int, **changes: Any) -> PretrainingOptions:
        """The options of the run that this is about, with another micro-batch size."""
        names = [field.name for field in dataclasses.fields(PretrainingOptions)]
        values = {name: getattr(self, name) for name in names}
        values.update(
            micro_batch_size=micro_batch_size,
            do_train=True,
            do_eval=False,
            input_file=self.input_file or ("not read",),
        )
        return PretrainingOptions(**{**values, **changes})

    @property
    def rematerialization(self) -> tuple[bool | None, ...]:
        """Whether layers are computed twice: both ways, or the one asked for; None: no choice."""
        if not hasattr(self, "remat"):
            return (None,)
        return (True,) if self.remat else (False, True)

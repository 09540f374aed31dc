"""The options of `inspect`."""

from __future__ import annotations

import dataclasses

from albert_tf.errors import InputError
from albert_tf.options import WithPaths, check_limits, option


@dataclasses.dataclass(frozen=True)
class InspectOptions(WithPaths):
    """Options of `inspect`."""

    input_file: tuple[str, ...] = option(
        (), "TFRecord files or globs; --input_file= may be omitted."
    )
    num_examples: int = option(3, "Number of examples to print.", minimum=0)
    first: int = option(0, "Number of examples to skip first.", minimum=0)
    statistics: bool = option(False, "Read all examples and print statistics.")
    plot: str | None = option(None, "PNG file for plots of the statistics.", path="file")
    spm_model_file: str | None = option(
        None, "SentencePiece model; default: the one named in the manifest."
    )
    vocab_file: str | None = option(
        None, "WordPiece vocabulary; default: the one named in the manifest."
    )

    def check(self) -> None:
        """Check everything that can be checked without reading a file.

        Raises:
            InputError: If a value is missing or out of range.
        """
        check_limits(self)
        if not self.input_file:
            raise InputError("`input_file`: name at least one TFRecord file")
        if self.plot and not self.plot.lower().endswith(".png"):
            raise InputError(f"`plot`={self.plot}: must end in .png")

"""Shows the content of TFRecord files for pretraining: examples as text, and statistics.

    albert-inspect data/train.tfrecord --num_examples=2
    albert-inspect data/train.tfrecord* --statistics --plot=data.png

The vocabulary is that of the manifest next to the files, unless a flag names one; without a
vocabulary, ids are shown. Files of the original project can be read as well.
"""

# This folder has no __init__.py: with one, `python data_prep/extract_corpus.py`, which makes Python
# search data_prep/ first, would import it instead of the standard library's `inspect`.

import contextlib
import dataclasses
import io
import os
import sys
from collections.abc import Iterator

from albert_tf.errors import InputError, arguments_renamed
from albert_tf.options import WithPaths, check_limits, command, option


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
        """Raise InputError for values that are missing or out of range."""
        check_limits(self)
        if not self.input_file:
            raise InputError("`input_file`: name at least one TFRecord file")
        if self.plot and not self.plot.lower().endswith(".png"):
            raise InputError(f"`plot`={self.plot}: must end in .png")


def run(options: InspectOptions) -> None:
    from albert_tf import files
    from albert_tf.input.manifest import record_files

    options.check()
    paths = record_files(options.input_file, "input_file")
    # They load TensorFlow, which takes longer than to see that a file is missing.
    from albert_tf.terminal import ThroughputLine
    from data_prep.inspect import examples, statistics

    if options.plot:
        files.make_folder(os.path.dirname(options.plot), "plot")
    features = examples.find_features(paths)
    with arguments_renamed(path="spm_model_file" if options.spm_model_file else "vocab_file"):
        names = examples.Names.find(paths, options.spm_model_file or options.vocab_file)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # the terminal may not support every character
    with _closed_pipes_ignored():
        if names.note:
            print(names.note, file=sys.stderr)
        if options.num_examples:
            batch = examples.read_some(paths, features, options.first, options.num_examples)
            print("\n\n".join([examples.LEGEND, *examples.as_text(batch, names, options.first)]))
        if not (options.statistics or options.plot):
            return
        with ThroughputLine("read", "examples") as progress:
            found = statistics.Statistics(features)
            for batch in examples.batches(paths, features):
                found.add(batch, names)
                progress.update(found.examples)
        if options.statistics:
            print(("\n" if options.num_examples else "") + found.table(len(paths), names))
        if options.plot:
            statistics.plot(found, names, options.plot)
            print(f"wrote {options.plot}")


@contextlib.contextmanager
def _closed_pipes_ignored() -> Iterator[None]:
    """End quietly when the reader of the output, as in `... | head`, closes the pipe."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise Python would try to write the rest again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


cli = command(InspectOptions, run, positional="input_file")

if __name__ == "__main__":
    cli()

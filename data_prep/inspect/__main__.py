"""Shows what is in TFRecord files for pretraining: examples as text, and statistics.

    python -m data_prep.inspect data/train-0.tfrecord --num_examples=2
    python -m data_prep.inspect data/train-*.tfrecord --statistics --plot=data.png

The vocabulary is that of the manifest beside the files, unless a flag names one; without any, ids
are shown. Files of the original project can be read as well.
"""

# This folder has no __init__.py: with one, `python data_prep/extract_corpus.py`, for which Python
# looks in data_prep/ first, would find it in the place of the standard library's `inspect`.

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys

from albert_tf.errors import InputError
from albert_tf.options import command, option


@dataclasses.dataclass(frozen=True)
class Options:
    input_file: tuple[str, ...] = option(
        (), "TFRecord files or globs; they may be written without the name of the flag."
    )
    num_examples: int = option(3, "How many examples to print.")
    first: int = option(0, "How many examples to leave out before that.")
    statistics: bool = option(False, "Whether to read all examples and print statistics.")
    plot: str | None = option(None, "PNG file for pictures of the statistics.")
    spm_model_file: str | None = option(
        None, "SentencePiece model; the one of the manifest if left out."
    )
    vocab_file: str | None = option(
        None, "WordPiece vocabulary; the one of the manifest if left out."
    )


def run(options: Options) -> None:
    from albert_tf import files
    from data_prep.inspect import reading, show, statistics
    from data_prep.inspect.names import Names
    from data_prep.progress import Progress

    _check(options)
    paths = files.expand_globs(options.input_file, "input_file")
    if options.plot:
        files.make_folder(os.path.dirname(options.plot), "plot")
    features = reading.find_features(paths)
    names = Names.find(paths, options.spm_model_file or options.vocab_file)
    sys.stdout.reconfigure(errors="replace")  # to a terminal that has not got every character
    with _quiet_about_closed_pipes():
        for note in names.notes:
            print(note, file=sys.stderr)
        if options.num_examples:
            batch = reading.read_some(paths, features, options.first, options.num_examples)
            print("\n\n".join([show.LEGEND, *show.examples(batch, names, options.first)]))
        if not (options.statistics or options.plot):
            return
        with Progress("read", "examples") as progress:
            found = statistics.Statistics(features)
            for batch in reading.batches(paths, features):
                found.add(batch, names)
                progress.update(found.examples)
        if options.statistics:
            print(("\n" if options.num_examples else "") + found.table(len(paths), names))
        if options.plot:
            from data_prep.inspect.plot import plot

            plot(found, names, options.plot)
            print(f"{options.plot}: written")


def _check(options: Options) -> None:
    if not options.input_file:
        raise InputError("--input_file: name a TFRecord file, or several")
    for name in ("num_examples", "first"):
        if getattr(options, name) < 0:
            raise InputError(f"--{name}: {getattr(options, name)} is negative")
    if options.plot and not options.plot.lower().endswith(".png"):
        raise InputError(f"--plot: {options.plot} does not end in .png")


@contextlib.contextmanager
def _quiet_about_closed_pipes():
    """`... | head` closes its end of the pipe when it has seen enough."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would try to write the rest once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


cli = command(Options, run, positional="input_file")

if __name__ == "__main__":
    cli()

"""Looks inside a model: one analysis per command.

    albert-analyze layers --model=out/albert,out/bert --input_file=text.txt
    albert-analyze pairs --model=out --input_file=pairs.tsv
    albert-analyze attention --model=out --text="The cat sat on the mat."
    albert-analyze parameters --model=base_v2,xxlarge_v2

`albert-analyze NAME --help` lists the flags of an analysis.
"""

import contextlib
import functools
import importlib
import os
import sys

from albert_tf.analysis.analysis_options import (
    AttentionOptions,
    LayersOptions,
    ModelOptions,
    OutputOptions,
    PairsOptions,
    ParametersOptions,
)
from albert_tf.engines.registry import installed_engine, select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import, restart_in_utf8
from albert_tf.files import folder_of_one, to_json, write_text
from albert_tf.flag_help import version_line
from albert_tf.options import command
from albert_tf.terminal import ending_quietly, program_name

# Name of a module of this package -> its flags, and its purpose. Its function `run(options)` prints
# tables, and returns the files of the output, if there is one: name -> text, or value of JSON.
ANALYSES: dict[str, tuple[type[OutputOptions], str]] = {
    "layers": (LayersOptions, "how far each layer moves the tokens (figure 1 of the paper)"),
    "pairs": (PairsOptions, "accuracy on minimal pairs of sentences, by phenomenon"),
    "attention": (AttentionOptions, "attention maps of all layers and heads"),
    "parameters": (ParametersOptions, "parameters, operations and memory by part"),
}


def run_analysis(name: str, options: OutputOptions) -> None:
    """Run a key of `ANALYSES` and write its files; load a framework only if it reads weights.

    Raises:
        InputError: If a flag, the model or a text is invalid.
    """
    folder = options.output_dir
    with folder_of_one(folder, "output_dir") if folder else contextlib.nullcontext():
        if isinstance(options, ModelOptions):
            select_engine(options.engine or os.environ.get("KERAS_BACKEND") or installed_engine())
        with quiet_import():
            if isinstance(options, ModelOptions):
                load_keras()
            module = importlib.import_module(f"albert_tf.analysis.{name}")
        written = module.run(options)
        for file, content in written.items():
            text = content
            if not isinstance(content, str):  # of which small changes are readable, line by line
                text = to_json(content, indent=1, ensure_ascii=False) + "\n"
            write_text(os.path.join(folder or "", file), text)
    if written:
        print(f"wrote {', '.join(written)} to {options.output_dir}")


@ending_quietly()
def cli() -> None:
    """Run the analysis that the first word of the command line names."""
    restart_in_utf8()
    program = program_name()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in ANALYSES:
        if name in ("--help", "-h", "--helpfull"):
            print(_usage(program))
            sys.exit(0)
        if name == "--version":
            print(version_line())
            sys.exit(0)
        found = f"{name}: " if name else ""
        print(
            f"{program}: error: {found}the first word must be one of {', '.join(ANALYSES)}",
            file=sys.stderr,
        )
        sys.exit(1)
    sys.argv = [f"{program} {name}", *sys.argv[2:]]
    command(ANALYSES[name][0], functools.partial(run_analysis, name))()


def _usage(program: str) -> str:
    rows = [f"    {name:<12}{purpose}" for name, (_, purpose) in ANALYSES.items()]
    lines = [f"{program} NAME --flag=value ...", "", *rows, ""]
    return "\n".join([*lines, f"`{program} NAME --help` lists the flags of an analysis."])


if __name__ == "__main__":
    cli()

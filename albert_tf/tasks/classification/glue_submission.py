"""Collects the files for the GLUE server from the output folders of the tasks into a zip file.

    albert-glue-submission --output_dirs='out/*' --submission_file=glue.zip

`run_classifier.py --do_predict --submission` writes these files.
"""

import dataclasses
import os
import zipfile

from albert_tf.errors import InputError
from albert_tf.files import expand_globs, files_in, is_remote, read_lines, read_text, replacing
from albert_tf.interop.file_names import SUBMISSION_FOLDER
from albert_tf.options import WithPaths, command, option

# The files that the GLUE server expects, and the number of rows below the header of each.
SUBMISSION_ROWS = {
    "CoLA.tsv": 1_063,
    "SST-2.tsv": 1_821,
    "MRPC.tsv": 1_725,
    "STS-B.tsv": 1_379,
    "QQP.tsv": 390_965,
    "MNLI-m.tsv": 9_796,
    "MNLI-mm.tsv": 9_847,
    "QNLI.tsv": 5_463,
    "RTE.tsv": 3_000,
    "WNLI.tsv": 146,
    "AX.tsv": 1_104,
}

_HEADER = "index\tprediction"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SubmissionOptions(WithPaths):
    """Flags of the program."""

    output_dirs: tuple[str, ...] = option(
        help="Output folders of the tasks, or globs, separated by commas."
    )
    submission_file: str = option(help="Zip file to write.", path="file")
    incomplete: bool = option(
        False, "Whether to write the file even if tasks are missing, which the server rejects."
    )


def gather(options: SubmissionOptions) -> None:
    """Write the zip file and print its content.

    Raises:
        InputError: If a task has no file, two files, or one that the server would reject.
    """
    if not options.submission_file.endswith(".zip"):
        raise InputError(f"`submission_file`={options.submission_file}: must end in .zip")
    if is_remote(options.submission_file):
        raise InputError(f"`submission_file`={options.submission_file}: must be a local file")
    found: dict[str, str] = {}
    for folder in expand_globs(options.output_dirs, "output_dirs"):
        for path in files_in(os.path.join(folder, SUBMISSION_FOLDER), "*.tsv"):
            name = os.path.basename(path)
            if name in found:
                raise InputError(
                    f"`output_dirs`: both {found[name]} and {path}; name only one of their folders"
                )
            found[name] = path
    missing = [name for name in SUBMISSION_ROWS if name not in found]
    if len(missing) == len(SUBMISSION_ROWS):
        raise InputError(
            f"`output_dirs`={','.join(options.output_dirs)}: no {SUBMISSION_FOLDER}/*.tsv in any; "
            "run_classifier.py writes them with --do_predict --submission"
        )
    if missing and not options.incomplete:
        raise InputError(
            f"`output_dirs`: no {', '.join(missing)}; the server accepts only all of them "
            "(set `incomplete` to write the others)"
        )
    chosen = {name: found[name] for name in SUBMISSION_ROWS if name in found}
    for name, path in chosen.items():
        _check(path, SUBMISSION_ROWS[name])
    target = options.submission_file
    with replacing(target) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as file:
        for name, source in chosen.items():  # the same bytes for the same files
            file.writestr(zipfile.ZipInfo(name), read_text(source), zipfile.ZIP_DEFLATED)
    print(f"{target}: {', '.join(chosen)}")
    if missing:
        print(f"missing: {', '.join(missing)}")


def _check(path: str, rows: int) -> None:
    lines = list(read_lines(path))
    if lines[:1] != [_HEADER]:
        raise InputError(f"{path}:1: must be {_HEADER!r}")
    for number, line in enumerate(lines[1:], start=2):
        if line.count("\t") != 1:
            raise InputError(f"{path}:{number}: must be an index, a tab and a prediction")
    if len(lines) - 1 != rows:
        raise InputError(
            f"{path}: {len(lines) - 1} predictions; the server expects {rows}, one for each row "
            "of the test set"
        )


cli = command(SubmissionOptions, gather)

if __name__ == "__main__":
    cli()

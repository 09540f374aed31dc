"""Dataclasses as flags, and what is loaded when."""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

import pytest
from absl import flags

from albert_tf import configs
from albert_tf.configs import with_recipe_paths
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.flag_help import is_required, parse_flags
from albert_tf.options import check_limits, declared, define_flags, flag_name, from_flags, option
from albert_tf.preflight.options import PreflightOptions
from albert_tf.task_kinds import task_kinds
from albert_tf.training.options import PretrainingOptions
from data_prep.extraction_options import ExtractionOptions
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.train_vocabulary import VocabularyOptions
from examples.demo.passages import PassageOptions
from tests.conftest import ROOT, parsed, run_commands, run_python


@dataclasses.dataclass(frozen=True)
class Options:
    name: str = option(help="Needed.")
    count: int = option(3, "A number.", minimum=1, maximum=9)
    rate: float | None = option(None, "Maybe a number.")
    verbose: bool = option(False, "A switch.")
    files: tuple[str, ...] = option((), "Several.")
    size: str = option("small", "One of few.", choices=("small", "large"))


@dataclasses.dataclass(frozen=True)
class Derived(Options):
    count: int | None = option(None, "With the same limits.")
    rate: float = option(0.5, "With limits.", minimum=0)
    share: float = option(0.5, "Between limits.", above=0, below=1)
    size: str = option("large", "With the same choices.")
    column: str = option("text", "Of some formats.", needs=("format", "table", "list"))
    format: str | None = option(None, "One of many.")
    formats: tuple[str, ...] = option((), "Several.")
    part: float = option(0.1, "Of the files.", needs=("files",))


COMMANDS = [
    *(kind.load("options") for kind in task_kinds()),
    *(ExtractionOptions, VocabularyOptions, PretrainingDataOptions, PretrainingOptions),
]


def parse(*arguments: str) -> Options:
    values = flags.FlagValues()
    define_flags(Options, values)
    assert parse_flags(["program", *arguments], values) == ["program"]
    return from_flags(Options, values)


def given(options_class: type, flag: str):
    """Return the options of a program to which a flag and all that are required are given."""
    required = [f"--{flag_name(f)}=x" for f in dataclasses.fields(options_class) if is_required(f)]
    return parsed(options_class, "program", *required, flag)


def test_defaults_and_values():
    assert parse("--name=x") == Options(name="x")
    options = parse(
        "--name=x", "--count=5", "--rate=0.5", "--verbose", "--files=a,b", "--size=large"
    )
    assert options == Options("x", 5, 0.5, True, ("a", "b"), "large")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"output_file": "./a//b.txt"}, {"output_file": "a/b.txt"}),
        ({"output_file": pathlib.Path("gs://b/./x")}, {"output_file": "gs:/b/x"}),
        ({"work_dir": "w/", "templates": "x/../t"}, {"work_dir": "w", "templates": "t"}),
        ({"input_file": ("~/x/", "./y/**/*.txt", "")}, {"input_file": ("/me/x", "y/**/*.txt", "")}),
    ],
)
def test_paths_have_one_spelling(arguments, expected, monkeypatch):
    monkeypatch.setenv("HOME", "/me")
    options = ExtractionOptions(**{"output_file": "a", **arguments})
    assert {name: getattr(options, name) for name in expected} == expected
    assert dataclasses.replace(options) == options


def test_weights_that_may_be_published_stay_paths_and_folders_are_no_files():
    options = PretrainingOptions(output_dir="out/", init_checkpoint="./a/b/")
    assert (options.output_dir, options.init_checkpoint) == ("out", "./a/b")
    with pytest.raises(InputError, match="^`output_file`=a/: is the name of a folder; add that"):
        ExtractionOptions(output_file="a/")


def test_flag_files_are_read_and_later_flags_win(tmp_path):
    path = tmp_path / "some.cfg"
    path.write_text("# a comment\n--count=7\n--verbose\n")
    options = parse(f"--flagfile={path}", "--name=x", "--count=8")
    assert (options.count, options.verbose) == (8, True)


def test_a_recipe_is_found_by_name_but_a_file_of_that_name_first(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    recipe = configs.recipes()["base_v2"]
    words = ["program", "--flagfile=base_v2", "--flagfile", "base_v2", "base_v2", "flagfile=mrpc"]
    expected = ["program", f"--flagfile={recipe}", "--flagfile", recipe, *words[4:]]
    (tmp_path / "base_v2").mkdir()
    assert with_recipe_paths(words) == expected, "a folder is no recipe"
    (tmp_path / "base_v2").rmdir()
    (tmp_path / "base_v2").touch()
    assert with_recipe_paths(words) == words
    assert not caplog.text, "a process may start itself again"
    assert with_recipe_paths(words, warns=True) == words
    assert f"base_v2: the file {tmp_path / 'base_v2'}, not what is shipped" in caplog.text


def test_every_recipe_has_a_name_of_its_own():
    folder = pathlib.Path(configs.__file__).parent
    files = [path for name in configs.RECIPES for path in folder.glob(f"{name}/*")]
    assert sorted(configs.recipes()) == sorted(path.stem for path in files)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--verbose", "`name`: required; --help describes the flags"),
        ("--size=huge", "--size=huge: must be one of small, large"),
        ("--count=1.5", "--count=1.5: must be a whole number"),
        ("--rate=a: b", "--rate=a: b: must be a number"),
        ("--verbose=maybe", "--verbose=maybe: must be true or false"),
        ("--noverbose=true", "--noverbose=true: does not take an argument"),
        ("--counts=1", "--counts: no such flag. Did you mean --count?"),
        ("--zzz", "--zzz: no such flag; --helpfull lists all"),
        ("--name", "--name: needs a value, as in --name=VALUE"),
        ("--flagfile", "--flagfile: needs a value, as in --flagfile=VALUE"),
        ("--flagfile=no 'file'", "--flagfile=no 'file': must be a file of flags or one of base_"),
        ("--flagfile=small_cu", "--flagfile=small_cu: must be a file of flags. Did you mean sm"),
    ],
)
def test_missing_wrong_and_unknown_flags_are_errors_of_one_line(argument, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        parse(argument)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Options("x", count=0), "`count`=0: must be 1 to 9"),
        (Options("x", rate=-1.0), None),
        (Derived("x"), None),
        (Derived("x", count=0), "`count`=0: must be 1 to 9"),
        (Derived("x", rate=-0.5), "`rate`=-0.5: must be at least 0"),
        (Derived("x", rate=float("nan")), "`rate`=nan: must be at least 0"),
        (Derived("x", rate=float("inf")), None),
        (Derived("x", share=0), "`share`=0: must be above 0 and below 1"),
        (Derived("x", size="huge"), "`size`=huge: must be one of small, large"),
        (Derived("x", files=("a", "", "b")), "`files`=a,,b: one of the values is empty"),
        (Derived("x", part=0.2), "`part`=0.2: needs `files`"),
        (Derived("x", part=0.2, files=("a",)), None),
        (Derived("x", formats=("text",)), None),
        (
            Derived("x", column="a", formats=("text", "book")),
            "`column`=a: needs `format`=table or list",
        ),
        (Derived("x", column="a", formats=("text", "list")), None),
        (Derived("x", column="a"), None),
    ],
)
def test_values_have_the_limits_and_choices_of_their_fields(options, message):
    if message is None:
        check_limits(options)
        return
    with pytest.raises(InputError, match=f"^{message}$"):
        check_limits(options)


def test_a_flag_with_the_value_of_its_default_needs_its_partner():
    with pytest.raises(InputError, match="^`part`=0.1: needs `files`$"):
        given(Derived, "--part=0.1")


@pytest.mark.parametrize("options_class", COMMANDS)
def test_no_path_is_empty(options_class):
    fields = dataclasses.fields(options_class)
    required = {field.name: "x" for field in fields if is_required(field)}
    for field in fields:
        if not re.search("_(dir|file|path|prefix)$", field.name) or "tuple" in str(field.type):
            continue
        with pytest.raises(InputError, match=f"^`{field.name}`=: must not be empty"):
            given(options_class, f"--{flag_name(field)}=")
        with pytest.raises(InputError, match=f"^`{field.name}`=: must not be empty"):
            options_class(**required | {field.name: ""})


@pytest.mark.parametrize("options_class", [*COMMANDS, PassageOptions, PreflightOptions])
def test_every_program_takes_the_same_seeds(options_class):
    for seed in (0, 2**31 - 1):
        assert given(options_class, f"--random_seed={seed}").random_seed == seed
    for seed in (-1, 2**31):
        with pytest.raises(InputError, match=f"^`random_seed`={seed}: must be 0 to 2147483647$"):
            given(options_class, f"--random_seed={seed}")


@pytest.mark.parametrize("options_class", COMMANDS)
def test_every_program_names_values_beyond_the_limits_of_a_flag(options_class):
    beyond = {"minimum": -1, "above": 0, "maximum": 1, "below": 0}
    checked = 0
    for field in (f for f in dataclasses.fields(options_class) if not f.metadata["needs"]):
        for name, limit in declared(options_class, field.name, "limits").items():
            with pytest.raises(InputError, match=f"^`{field.name}`=.*: must be "):
                given(options_class, f"--{flag_name(field)}={limit + beyond[name]}")
            checked += 1
    assert checked > 5


_COMMAND = """
import dataclasses, sys
from albert_tf.options import command, option

@dataclasses.dataclass(frozen=True)
class Options:
    count: int = option(3, "A number.")

def run(options):
    WORK

command(Options, run)()
"""


@pytest.mark.parametrize(
    ("work", "arguments", "code"),
    [
        ("[print(n) for n in range(100_000)]", [], 141),
        ("print()", [], 141),  # only written at the end
        ("print()", ["--help"], 141),
        ("print(flush=True)", [], 141),
        ("print(); sys.exit(3)", [], 141),
        ("print('a', file=sys.stderr)", [], 0),
    ],
)
def test_a_command_whose_output_is_not_read_ends_quietly(work, arguments, code, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-c", _COMMAND.replace("WORK", work), *arguments]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (code, "a\n" if code == 0 else "")


@pytest.mark.parametrize("arguments", [("--helpfull",), ("--version",)])
def test_a_full_disk_is_one_line(arguments):
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-c", _COMMAND, *arguments]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    message = "-c: error: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, message)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("BrokenPipeError(32, 'Broken pipe')", "Broken pipe"),
        ("OSError(28, 'No space left', 'a.txt')", "a.txt: No space left"),
    ],
)
def test_an_error_of_the_system_is_a_line_without_its_number(error, message):
    done = run_python("-c", _COMMAND.replace("WORK", f"raise {error}"))
    assert (done.returncode, done.stderr) == (1, f"-c: error: {message}\n")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grouped:
    steps: int = option(3, "Number of steps.", group="Training", common=True)
    rate: float = option(0.5, "Speed.")
    source: str = option(help="A place.", flag="from")
    size: str = option("s", "A size.", ("s", "m"), aliases=("sizes",), group="Model")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MoreGrouped(Grouped):
    files: tuple[str, ...] = option(("a", "b"), "Several.", group="Data", common=True)
    rate: float = option(1.0, "Speed.")
    momentum: float = option(0.0, "Also in Training, as the field before.")
    header: bool = option(True, "A switch.", group="Data")


_HELP_COMMAND = """
from albert_tf.options import command
from albert_tf.original_flags import OriginalFlag
from tests.test_options import MoreGrouped
command(MoreGrouped, print, original={"old": OriginalFlag("omit it")})()
"""


@pytest.fixture(scope="module")
def helps(tmp_path_factory) -> list[str]:
    """Return what --helpfull prints, and the flags for the short help."""
    folder, flags = tmp_path_factory.mktemp("help"), ("--helpfull", "--help", "-h", "--helpshort")
    (folder / "a.py").write_text(_HELP_COMMAND)
    commands = [[f"{folder}/a.py", flag] for flag in flags]
    done = run_commands(commands, folder, "tests.test_options", COLUMNS="60")
    assert (done.stdout.split(), done.stderr) == (["0"] * 4, "")
    return [(folder / f"{number}.out").read_text() for number in range(4)]


@pytest.mark.integration
def test_help_lists_required_and_common_flags_in_groups(helps):
    full, text, *others = helps
    assert others == [text] * 2
    assert re.findall(r"^(\w+:|  --\S+)", text, re.MULTILINE) == [
        *("Required:", "  --from", "Data:", "  --files=a,b", "Training:", "  --steps=3")
    ]
    *lines, before, last = text.splitlines()
    assert set(lines) <= set(full.splitlines())
    assert before == "a.py --helpfull lists all 7 flags. --flagfile=NAME reads"
    assert last == "flags from a file or a recipe."


@pytest.mark.integration
def test_help_describes_what_pips_starter_starts(tmp_path):
    """Where the path of Python is long or contains a space, the docstring of a script is code."""
    script = tmp_path / "albert-convert"
    starter = """#!/bin/sh\n'''exec' "/a b/python" "$0" "$@"\n' '''\n"""
    script.write_text(f"{starter}from albert_tf.cli.convert import main\nmain()\n")
    done = run_python(script, "--help", PYTHONPATH=str(ROOT))
    assert done.stdout.startswith("Converts ALBERT weights between formats.\n")


@pytest.mark.integration
def test_full_help_lists_all_flags(helps):
    assert (
        helps[0]
        == """\
a.py --flag=value ...

Required:
  --from                     A place. (required)

Data:
  --files=a,b                Several.
  --[no]header               A switch. (default: true)

Model:
  --size=s                   A size. One of s, m. Also
                             --sizes.

Training:
  --steps=3                  Number of steps.
  --rate=1.0                 Speed.
  --momentum=0.0             Also in Training, as the field
                             before.

Of the original:
  --old                      Of the original: omit it

--flagfile=NAME reads flags from a file or a recipe.
"""
    )


@pytest.mark.integration
def test_help_of_a_large_program_is_short_and_its_full_help_complete():
    short, full = (
        run_python("run_classifier.py", flag).stdout for flag in ("--help", "--helpfull")
    )
    assert short.count("\n") < 100
    headings = re.findall(r"^([A-Z]\w+):$", short, re.MULTILINE)
    assert headings == ["Required", "Data", "Model", "Training", "Evaluation", "Devices"]
    options_class = task_kinds()[0].load("options")
    names = {flag_name(field) for field in dataclasses.fields(options_class)}
    assert names | set(options_class.original) == set(
        re.findall(r"^  --(?:\[no\])?(\w+)", full, re.MULTILINE)
    )


def test_a_caller_reports_errors_in_terms_of_its_own_arguments():
    with (
        pytest.raises(InputError, match="^`init_checkpoint`=x: no such file; `path` of `name`$"),
        arguments_renamed(path="init_checkpoint", file="path"),
    ):
        raise InputError("`path`=x: no such file; `file` of `name`")

"""Dataclasses as flags, and what is loaded when."""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
import sys

import pytest
from absl import flags

from albert_tf import configs
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.options import define_flags, from_flags, option, with_recipe_paths


@dataclasses.dataclass(frozen=True)
class Options:
    name: str = option(help="Needed.")
    count: int = option(3, "A number.")
    rate: float | None = option(None, "Maybe a number.")
    verbose: bool = option(False, "A switch.")
    files: tuple[str, ...] = option((), "Several.")
    size: str = option("small", "One of few.", choices=("small", "large"))


def parse(*arguments: str) -> Options:
    values = flags.FlagValues()
    define_flags(Options, values)
    values(["program", *arguments])
    return from_flags(Options, values)


def test_defaults_and_values():
    assert parse("--name=x") == Options(name="x")
    options = parse(
        "--name=x", "--count=5", "--rate=0.5", "--verbose", "--files=a,b", "--size=large"
    )
    assert options == Options("x", 5, 0.5, True, ("a", "b"), "large")


def test_flag_files_are_read_and_later_flags_win(tmp_path):
    path = tmp_path / "some.cfg"
    path.write_text("# a comment\n--count=7\n--verbose\n")
    options = parse(f"--flagfile={path}", "--name=x", "--count=8")
    assert (options.count, options.verbose) == (8, True)


def test_a_recipe_is_found_by_name_but_a_file_of_that_name_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = configs.recipes()["base_v2"]
    words = ["program", "--flagfile=base_v2", "--flagfile", "base_v2", "base_v2", "flagfile=mrpc"]
    expected = ["program", f"--flagfile={recipe}", "--flagfile", recipe, *words[4:]]
    assert with_recipe_paths(words) == expected
    (tmp_path / "base_v2").touch()
    assert with_recipe_paths(words) == words


def test_every_recipe_has_a_name_of_its_own():
    folder = pathlib.Path(configs.__file__).parent
    files = [*folder.glob("pretraining/*"), *folder.glob("finetuning/*")]
    assert sorted(configs.recipes()) == sorted(path.stem for path in files)


@pytest.mark.parametrize("arguments", [[], ["--name=x", "--size=huge"], ["--name=x", "--counts=1"]])
def test_missing_wrong_and_unknown_flags_are_errors(arguments):
    with pytest.raises(flags.Error):
        parse(*arguments)


def test_importing_the_package_and_the_programs_loads_no_tensorflow():
    code = (
        "import sys, albert_tf, run_pretraining, run_classifier, run_squad, export_saved_model;"
        "import data_prep.extract_corpus, data_prep.train_vocabulary;"
        "import data_prep.create_pretraining_data, albert_tf.config, albert_tf.tokenizers.base;"
        "loaded = {'tensorflow', 'keras'} & set(sys.modules); assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there():
    import albert_tf

    for name in albert_tf.__all__:
        assert getattr(albert_tf, name).__name__ == name


_COMMAND = """
import dataclasses, sys
from albert_tf.errors import InputError
from albert_tf.options import command, option

@dataclasses.dataclass(frozen=True)
class Options:
    count: int = option(3, "A number.")
    source: str = option("here", "A place.", flag="from")

def run(options):
    raise InputError(f"`count`={options.count}: too many for `source`; see `elsewhere`")

command(Options, run)()
"""


def test_a_command_prints_the_arguments_in_an_error_as_flags():
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, "--count=4"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.endswith("error: --count=4: too many for --from; see `elsewhere`\n")


def test_a_caller_reports_errors_in_terms_of_its_own_arguments():
    with (
        pytest.raises(InputError, match="^`init_checkpoint`=x: no such file; `path` of `name`$"),
        arguments_renamed(path="init_checkpoint", file="path"),
    ):
        raise InputError("`path`=x: no such file; `file` of `name`")

"""An export of a pretrained model and one of a classifier, for all tests that only read them."""

import json
import pathlib

import pytest

from albert_tf.export.build import export_saved_model
from albert_tf.export.export_options import ExportOptions
from tests.conftest import once
from tests.end_to_end.conftest import call
from tests.support.models import write_trained
from tests.support.served import LABELS, require_tensorflow_text, trained_folder


def options_of(trained: str | pathlib.Path, path: pathlib.Path, **changes) -> ExportOptions:
    return ExportOptions(init_checkpoint=str(trained), export_path=str(path), **changes)


@pytest.fixture(scope="session")
def options(shared_folder) -> ExportOptions:
    """Return how `export` is made; `init_checkpoint` says that its vocabulary is cased."""

    def made_in(folder: pathlib.Path) -> ExportOptions:
        changes = {"do_lower_case": True, "max_seq_length": 9}
        return options_of(folder / "trained", folder / "export", **changes)

    def make() -> None:
        write_trained(folder / "trained")
        export_saved_model(made_in(folder))

    folder = shared_folder / "exported"
    return made_in(once(folder, make))


@pytest.fixture(scope="session")
def trained(options) -> str:
    return options.init_checkpoint


@pytest.fixture(scope="session")
def export(options) -> str:
    return options.export_path


@pytest.fixture(scope="session")
def classifier(shared_folder) -> pathlib.Path:
    """Return what fine-tuning a classifier of pairs leaves."""

    def make() -> None:
        trained_folder(
            folder / "trained",
            "classifier",
            labels__json=json.dumps(LABELS),
            target__json=json.dumps(
                {"kind": "classification", "pairs": True, "max_seq_length": 16}
            ),
            eval_results__txt="eval_accuracy = 0.75\nglobal_step = 7\n",
        )

    folder = shared_folder / "classifier"
    return once(folder, make) / "trained"


@pytest.fixture(scope="session")
def exported_classifier(classifier, shared_folder) -> pathlib.Path:
    """Return the folder in which `export/` is what the command makes of `classifier`."""
    require_tensorflow_text()

    def make() -> None:
        call(
            "export_saved_model.py", f"--init_checkpoint={classifier}", "--nopreprocess",
            f"--export_path={folder}/export",
        )  # fmt: skip

    folder = shared_folder / "exported_classifier"
    return once(folder, make)

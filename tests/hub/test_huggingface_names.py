"""Files of the Hugging Face Hub by name: cached, resumed, offline, and errors of one line."""

import os
import pathlib
import subprocess
import sys
import threading

import pytest

from albert_tf.errors import InputError
from albert_tf.hub.huggingface import commit_of, download, parse_name
from albert_tf.hub.names import local_weights
from tests.conftest import ROOT
from tests.support.hub import COMMIT, Hub

WEIGHTS = os.urandom(22_000_000)  # the library writes 10 MB at a time


@pytest.fixture
def hub(hub: Hub) -> Hub:
    """Return a Hub with a model."""
    (hub.folder / "config.json").write_text("{}")
    (hub.folder / "model.safetensors").write_bytes(WEIGHTS)
    (hub.folder / "pytorch_model.bin").write_bytes(b"a pickle")
    hub.repository = "models/org/name"
    return hub


def fetch(name: str = "org/name") -> pathlib.Path:
    patterns, repository = ["*.json", "*.safetensors"], parse_name(name)
    assert repository
    return pathlib.Path(download(name, repository, patterns, argument="init_checkpoint"))


def error_of(name: str = "org/name") -> str:
    with pytest.raises(InputError) as raised:
        fetch(name)
    message = str(raised.value)
    assert message.startswith(f"`init_checkpoint`={name}: ")
    assert "\n" not in message
    return message


def test_files_are_fetched_once_and_are_there_offline(hub, monkeypatch, capsys):
    from huggingface_hub import constants

    folder = fetch()
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert not (folder / "pytorch_model.bin").exists()
    assert commit_of(str(folder)) == COMMIT
    assert f"org/name: commit {COMMIT}" in capsys.readouterr().out
    served = hub.served
    assert fetch(f"org/name@{COMMIT}") == folder
    assert fetch("org/name@refs/pr/1") == folder
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert fetch() == folder
    assert hub.served == served


def test_a_local_folder_wins(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert local_weights("org/name", argument="path") == "org/name"
    assert capsys.readouterr().out == "", "training folders have such names, too"
    (tmp_path / "org" / "name" / "config.json").write_text("{}")
    assert local_weights("org/name", argument="path") == "org/name"
    assert "org/name: the local path, not the published weights" in capsys.readouterr().out
    assert hub.requests == 0


@pytest.mark.parametrize(
    ("name", "refusal", "message"),
    [
        ("org/other", None, "no local file or folder, and no model of this name"),
        ("org/name@v9", None, "has no revision 'v9'"),
        ("org/name", (403, "GatedRepo"), "access must be asked for at http"),
        ("org/name", (500, "Internal"), "cannot be fetched from http"),
    ],
)
def test_a_refusal_is_one_line(hub, name, refusal, message):
    hub.refusal = refusal
    assert message in error_of(name)


def test_offline_without_a_cache_names_the_way_around(hub, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    message = error_of()
    assert "HF_HUB_OFFLINE is set" in message
    assert "hf download org/name --local-dir=FOLDER" in message
    assert hub.requests == 0


@pytest.mark.integration
def test_a_broken_connection_is_resumed(hub):
    hub.pause_after = 21_000_000

    def break_off() -> None:
        hub.paused.wait()
        hub.pause_after = 0

    threading.Thread(target=break_off, daemon=True).start()
    assert (fetch() / "model.safetensors").read_bytes() == WEIGHTS
    assert hub.served < 1.6 * len(WEIGHTS)


@pytest.mark.integration
def test_a_killed_download_leaves_nothing_under_the_final_name(hub, tmp_path):
    program = (
        "from albert_tf.hub.huggingface import HubName, download; "
        "download('', HubName('org/name', None), ['*.safetensors'], argument='path')"
    )
    cache = tmp_path / "cache"
    environment = os.environ | {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HUB_CACHE": str(cache),
        "PYTHONPATH": str(ROOT),
    }
    hub.pause_after = 21_000_000
    process = subprocess.Popen([sys.executable, "-c", program], env=environment)
    assert hub.paused.wait(60)
    process.kill()
    process.wait()
    hub.pause_after = 0
    assert not list(cache.glob("**/snapshots/*/*"))
    assert (fetch() / "model.safetensors").read_bytes() == WEIGHTS


def test_names():
    assert parse_name("albert/albert-base-v2") == ("albert/albert-base-v2", None)
    assert parse_name("a/b@refs/pr/3") == ("a/b", "refs/pr/3")
    for name in ("a", "a/b/c", "../b", "./b", "a/.b", "/a/b", "a/b@", "a/b\n"):
        assert parse_name(name) is None

"""What is not ours is not touched, and unfinished work is resumed and has no final name."""

import dataclasses
import json
import os
import pathlib
import shutil

import pytest

from albert_tf.errors import InputError
from albert_tf.input.manifest import find_manifests
from data_prep import pretraining_data, train_vocabulary, work_folder
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from data_prep.pretraining_data import create_pretraining_data
from data_prep.train_vocabulary import VocabularyOptions
from tests.support.texts import create


@pytest.fixture
def text(corpus, tmp_path) -> pathlib.Path:
    return pathlib.Path(shutil.copy(corpus, tmp_path / "text.txt"))


def snapshot(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", ["name", "other spelling", "link", "hard link"])
@pytest.mark.parametrize("command", ["examples", "corpus", "held out", "vocabulary"])
def test_an_input_is_never_an_output(options, text, tmp_path, kind, command):
    name = str(text)
    if kind == "other spelling":
        name = f"{tmp_path}/../{tmp_path.name}/./text.txt"
    elif kind in ("link", "hard link"):
        name = str(tmp_path / "link.txt")
        (os.symlink if kind == "link" else os.link)(text, name)
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="is also read, as `input_file`; choose another name"):
        write(command, options, text, name)
    assert snapshot(tmp_path) == before


def write(command: str, options, text: pathlib.Path, output: str) -> None:
    """Run a command that reads a text."""
    inputs = {"input_file": (str(text),)}
    if command == "examples":
        create_pretraining_data(dataclasses.replace(options, **inputs, output_file=(output,)))
    elif command == "corpus":
        extract(ExtractionOptions(format="text", **inputs, output_file=output))
    elif command == "held out":
        outputs = {"output_file": f"{text}.new", "eval_output_file": output}
        extract(ExtractionOptions(format="text", **inputs, **outputs))
    else:
        prefix = output.removesuffix(".txt")
        vocabulary = {"vocab_size": 300, "model_type": "wordpiece", "output_prefix": prefix}
        train_vocabulary.run(VocabularyOptions(**inputs, **vocabulary))


@pytest.mark.parametrize("name", ["text.manifest.json", "text.index.json", "text.model"])
def test_nor_is_what_is_written_next_to_it(options, text, tmp_path, name):
    """The manifest and the index have names of their own."""
    text = text.rename(tmp_path / name)
    model = shutil.copy(options.spm_model_file, tmp_path / "text.model")
    options = dataclasses.replace(
        options,
        input_file=(str(text),),
        spm_model_file=str(model),
        output_file=(str(tmp_path / ("text.model" if name == "text.model" else "text.tfrecord")),),
    )
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match=f"`output_file`: .*{name} is also read, as"):
        create_pretraining_data(options)
    assert snapshot(tmp_path) == before


@pytest.mark.integration
@pytest.mark.parametrize("command", ["examples", "corpus"])
@pytest.mark.parametrize("kind", ["link", "file", "folder of others", "marker of others"])
def test_a_folder_of_others_is_not_touched(options, text, tmp_path, command, kind):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "diary").write_text("dear diary")
    output, place = tmp_path / "out" / "train.txt", tmp_path / "out" / ".train.txt.work"
    place.parent.mkdir()
    if kind == "link":
        place.symlink_to(precious)
    elif kind == "file":
        place.write_text("precious")
    else:
        precious.rename(place)
        if kind == "marker of others":
            (place / "fingerprint").write_text("SHA256:mine\n")
    before = snapshot(tmp_path)
    with pytest.raises(InputError, match="^`output_file`: .*needs a folder of this name; remove"):
        write(command, options, text, str(output))
    assert snapshot(tmp_path) == before
    # Once it is gone, the command works, and removes its own folder.
    shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    write(command, options, text, str(output))
    assert not place.exists()


@pytest.mark.parametrize("content", [b"", bytes(64)])
def test_a_folder_that_was_just_created_is_taken_over(options, text, tmp_path, content):
    """A power cut may leave the marker without its content."""
    place = tmp_path / "out" / ".train.txt.work"
    place.mkdir(parents=True)
    (place / "fingerprint").write_bytes(content)
    (place / "0.txt").write_text("half a file")
    write("corpus", options, text, str(tmp_path / "out" / "train.txt"))
    assert not place.exists()


def test_unfinished_work_on_remote_files_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(work_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    one, two = (work_folder.hidden_folder(f"gs://{n}/train.tfrecord", None) for n in "ab")
    assert one != two
    assert one == work_folder.hidden_folder("gs://a/train.tfrecord", None)
    (private,) = tmp_path.iterdir()
    assert private.stat().st_mode & 0o777 == 0o700
    assert pathlib.Path(one).parent == private
    private.chmod(0o777)
    with pytest.raises(InputError, match="`work_dir`: .* or other users can write to it"):
        work_folder.hidden_folder("gs://a/train.tfrecord", None)
    private.rename(tmp_path / "elsewhere")
    private.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="`work_dir`: .* is a link"):
        work_folder.hidden_folder("gs://a/train.tfrecord", None)
    shared = {work_folder.hidden_folder(f"{n}/train.txt", "/w") for n in ("de", "./de", "fr")}
    assert len(shared) == 2
    assert {os.path.dirname(folder) for folder in shared} == {"/w"}


@pytest.mark.integration
def test_files_next_to_two_outputs_never_collide(options, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    held_out = {"eval_fraction": 0.3, "random_seed": 1}
    corpus = ExtractionOptions(format="text", input_file=("text.txt",), output_file="x", **held_out)

    def extracted(output: str, held_out: str | None) -> None:
        extract(dataclasses.replace(corpus, output_file=output, eval_output_file=held_out))

    extracted("de.train", "de.eval")
    for name in ("de.train", "de.eval"):
        documents = pathlib.Path(name).read_text().split("\n\n")
        assert pathlib.Path(f"{name}.sources.tsv").read_text().count("\n") == len(documents)
    assert pathlib.Path("de.train.corpus.json").exists()
    for output, other in (("m", "m.corpus.json"), ("m", "m.sources.tsv"), ("m.sources.tsv", "m")):
        with pytest.raises(InputError, match="is also written, as `output_file` or next to it"):
            extracted(output, other)
    extracted("fr.txt", "fr-eval.txt")
    with pytest.raises(InputError, match="have the names of those of fr.txt; choose another name"):
        extracted("fr", "fr-eval.txt")

    def made(output: str) -> dict:
        return create_pretraining_data(dataclasses.replace(options, output_file=(output,)))

    def found() -> dict[str, int]:
        manifests = find_manifests(["wiki.train"])
        return {path: manifest["settings"]["dupe_factor"] for path, manifest in manifests.items()}

    made("wiki.train")
    assert made("wiki.eval")["files"].keys() == {"wiki.eval"}
    assert found() == {"wiki.train.manifest.json": 2}
    # As an earlier revision called it.
    os.rename("wiki.train.manifest.json", "wiki.manifest.json")
    for _ in range(2):
        made("wiki.train")
        assert found() == {"wiki.manifest.json": 2}
    options = dataclasses.replace(options, dupe_factor=1)
    made("wiki.train")
    assert found() == {"wiki.train.manifest.json": 1}
    made("zh")
    # So too of a corpus; that of another one is not taken for it.
    options = dataclasses.replace(options, input_file=("de.train", "de.eval"))
    os.rename("de.train.corpus.json", "de.corpus.json")
    assert made("de-old")["corpora"].keys() == {"de.train", "de.eval"}
    extracted("de.txt", "en-eval.txt")
    assert made("de-new")["corpora"] == {}
    with pytest.raises(InputError, match=r"zh.manifest.json is the manifest of zh; choose another"):
        made("zh.tfrecord")
    with pytest.raises(InputError, match=r"zh.tfrecord.gz: would not be compressed"):
        made("zh.tfrecord.gz")


def test_an_output_may_be_in_the_folder_that_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.jsonl", "b/c.jsonl", ".d.jsonl", "b/.e/f.jsonl", "x.txt", "b/y.txt"):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"text": f"This is {name}."}) + "\n")
    (tmp_path / "in" / ".#lock.txt").symlink_to("nowhere")
    for format, names in (("table", ["a", "c"]), ("books", ["x", "y"])):
        for _ in range(2):
            options = ExtractionOptions(
                format=format, input_file=("in/",), output_file="./in/out.txt"
            )
            inputs = extract(options)["inputs"]
            assert sorted(pathlib.Path(path).stem for path in inputs) == names
        (tmp_path / "in" / "out.txt").unlink()
    os.mkfifo("pipe")
    for output, message in (("in/x.txt", "is also read, as"), ("pipe", "is a pipe or a device")):
        with pytest.raises(InputError, match=f"`output_file`: {output} {message}"):
            extract(ExtractionOptions(format="books", input_file=("in",), output_file=output))


@pytest.mark.integration
def test_two_runs_on_the_same_files_exclude_each_other(options, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pretraining_data, "_make_shard", lambda *arguments: create(options))
        with pytest.raises(InputError, match="`output_file`: another process is already writing"):
            create(options)


@pytest.mark.integration
def test_shards_of_another_run_are_reported(options, tmp_path, capsys):
    create(dataclasses.replace(options, num_shards=2))
    assert not capsys.readouterr().err
    unfinished = (".train.tfrecord.work", ".train.tfrecord-00000-of-00004.work")
    for name in unfinished:
        (tmp_path / "out" / name).mkdir()
    create(dataclasses.replace(options, num_shards=3))
    said = capsys.readouterr().err
    assert all(name in said for name in ("train.tfrecord-00001-of-00002", *unfinished))


@pytest.mark.integration
def test_other_options_or_input_start_from_scratch(options, tmp_path, monkeypatch, capsys):
    text = tmp_path / "in.txt"
    shutil.copy(options.input_file[0], text)
    options = dataclasses.replace(options, input_file=(str(text),))
    with monkeypatch.context() as patch:
        patch.setattr(pretraining_data, "_make_shard", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            create(options)
        with pytest.raises(ZeroDivisionError):
            create(dataclasses.replace(options, ngram=2))
        assert "starting from scratch" in capsys.readouterr().out
        text.write_text(text.read_text("utf-8") + "\nOne more sentence.\n", "utf-8")
        with pytest.raises(ZeroDivisionError):
            create(dataclasses.replace(options, ngram=2))
        assert "starting from scratch" in capsys.readouterr().out
    create(dataclasses.replace(options, ngram=2, num_processes=2))
    assert "resuming" in capsys.readouterr().out


@pytest.mark.integration
def test_a_finished_run_is_verified_and_not_repeated(options, monkeypatch):
    manifest, _ = create(options)
    file = pathlib.Path(options.output_file[0])
    with monkeypatch.context() as patch:
        patch.setattr(pretraining_data, "_make_files", lambda *arguments: 1 / 0)
        assert create(options)[0] == json.loads(json.dumps(manifest))
        content = file.read_bytes()
        file.write_bytes(content[:-1] + b"?")
        with pytest.raises(ZeroDivisionError):
            create(options)
    create(options)
    assert file.read_bytes() == content

"""A Dask cluster writes the files of a single machine, whatever happens to its workers."""

import contextlib
import dataclasses
import itertools
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import dask
import pytest

from albert_tf.errors import InputError
from data_prep import example_maker, pretraining_data, workers
from data_prep.corpora import text
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from data_prep.pretraining_data import create_pretraining_data
from data_prep.train_vocabulary import VocabularyOptions, train_vocabulary
from data_prep.work_folder import WorkFolder
from tests.conftest import ROOT
from tests.support.texts import contents_of_any_run, create

pytestmark = pytest.mark.integration


class Cluster:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: pathlib.Path, count: int = 2):
        self.scheduler_file = str(folder / "scheduler.json")
        common = ["--scheduler-file", self.scheduler_file, "--no-dashboard"]
        local = ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
        self._start_worker = lambda: self._start("worker", *common, *local)
        self.scheduler = self._start("scheduler", "--port", "0", "--host", "127.0.0.1", *common)
        while not os.path.exists(self.scheduler_file):
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.workers = [self._start_worker() for _ in range(count)]

    def _start(self, *words: str) -> subprocess.Popen:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def lose_worker(self) -> None:
        """Kill a worker, and start another one."""
        lost = self.workers.pop(0)
        lost.kill()
        lost.wait()
        self.workers.append(self._start_worker())

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


def running(tmp_path_factory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


cluster = pytest.fixture(running)
# For all tests that leave its scheduler alone.
lasting_cluster = pytest.fixture(running, scope="module")


@pytest.fixture
def expected(options, tmp_path, small_pieces) -> dict[str, object]:
    """Return what this machine writes, in many pieces of work."""
    create(options)
    return contents_of_any_run(tmp_path / "out")


def on_dask(options, tmp_path, cluster: Cluster):
    return dataclasses.replace(
        options,
        output_file=(str(tmp_path / "dask" / "train.tfrecord"),),
        runner="dask",
        dask_scheduler=cluster.scheduler_file,
    )


@pytest.fixture(params=["extract_corpus", "train_vocabulary", "create_pretraining_data"])
def command(request, options, corpus, small_pieces, monkeypatch, tmp_path) -> Callable:
    """Return a function that runs a command in many pieces of work, and returns what it writes.

    Its arguments are the folder to write to and a cluster; without one, this machine works.
    """
    monkeypatch.setattr(text, "_UNIT_BYTES", 10_000)
    # The workers of the cluster have this one, and lengths that fill rows depend on it.
    monkeypatch.setattr(example_maker, "_TOKENS_AT_ONCE", 8_000_000)
    many = {"vocab_size": 500, "input_sentence_size": 700, "model_type": "wordpiece"}
    evaluation_set = tmp_path / "evaluation.txt"
    evaluation_set.write_text(corpus.read_text("utf-8")[5000:9000], "utf-8")
    corpus_options = {
        "format": "text", "eval_fraction": 0.3, "near_duplicates": 0.3,
        "input_file": (str(corpus),), "decontaminate": (str(evaluation_set),),
        "quality": "default",
    }  # fmt: skip

    def run(folder: pathlib.Path, cluster: Cluster | None = None) -> dict[str, object]:
        out = str(folder / "train")
        where = {"runner": "dask", "dask_scheduler": cluster.scheduler_file} if cluster else {}
        if request.param == "extract_corpus":
            outputs = {"output_file": f"{out}.txt", "eval_output_file": f"{out}.held_out"}
            extract(ExtractionOptions(**corpus_options, **outputs, **where))
        elif request.param == "train_vocabulary":
            train_vocabulary(
                VocabularyOptions(**many, input_file=(str(corpus),), output_prefix=out, **where)
            )
        else:
            output = {"output_file": (f"{out}.tfrecord",), "pack_rows": True, "packing": "fit"}
            create(dataclasses.replace(options, **output, **where))
            return contents_of_any_run(folder)
        found = {path.name: path.read_bytes() for path in folder.iterdir()}
        return {name: found[name] for name in found if not name.endswith("corpus.json")}

    return run


@contextlib.contextmanager
def watched(number: int = -1, action: Callable[[], None] = bool) -> Iterator[list[object]]:
    """Collect the work whose results arrive, and act before one of them is awaited."""
    map_, result, results = workers.DaskWorkers.map, workers.DaskWorkers._result, []

    def collected(self, function, items):
        given, taken = itertools.tee(items)
        for done, item in zip(map_(self, function, given), taken, strict=True):
            # What a sentence of a vocabulary must be below changes with the results.
            name = function.__name__
            results.append((name, item[0] if name == "_sentences_of" else item))
            yield done

    def counted(self, future):
        if len(results) == number:
            action()
        return result(self, future)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers.DaskWorkers, "map", collected)
        patch.setattr(workers.DaskWorkers, "_result", counted)
        yield results


# One command of the three, which all run on Dask in the next test.
@pytest.mark.parametrize("command", ["create_pretraining_data"], indirect=True)
def test_a_worker_killed_changes_nothing(command, tmp_path, lasting_cluster):
    expected = command(tmp_path / "here")
    with watched(2, lasting_cluster.lose_worker) as results:
        assert command(tmp_path / "dask", lasting_cluster) == expected
    assert len(results) > 8


@pytest.mark.slow
def test_a_run_resumes_after_its_scheduler_is_lost(
    command, tmp_path, cluster, lasting_cluster, capsys
):
    expected = command(tmp_path / "here")
    with (
        watched(4, cluster.stop) as finished,
        pytest.raises(ChildProcessError, match="lost the Dask scheduler at tcp://.*resume"),
    ):
        command(tmp_path / "dask", cluster)
    assert len(finished) == 4
    assert [path.suffix for path in (tmp_path / "dask").iterdir()] == [".work"]
    with watched() as repeated:
        assert command(tmp_path / "dask", lasting_cluster) == expected
    assert repeated
    assert not [item for item in repeated if item in finished]
    assert "resuming the unfinished run" in capsys.readouterr().out


@pytest.mark.slow
def test_files_in_a_bucket(bucket, options, expected, tmp_path, cluster):
    for name, path in (("in.txt", *options.input_file), ("30k.model", options.spm_model_file)):
        bucket.put(name, pathlib.Path(path).read_bytes())
    place = "gs://bucket"
    create_pretraining_data(
        dataclasses.replace(
            on_dask(options, tmp_path, cluster),
            input_file=(f"{place}/in.txt",),
            spm_model_file=f"{place}/30k.model",
            output_file=(f"{place}/train.tfrecord",),
            work_dir=str(tmp_path / "work"),
        )
    )
    assert bucket.objects["train.tfrecord"].content == expected["train.tfrecord"]
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.slow
def test_a_cluster_of_its_own(options, expected, tmp_path):
    output = (str(tmp_path / "dask" / "train.tfrecord"),)
    create(dataclasses.replace(options, output_file=output, runner="dask", num_processes=2))
    assert contents_of_any_run(tmp_path / "dask") == expected


def test_errors_are_those_of_the_work(options, tmp_path, lasting_cluster):
    path = tmp_path / "in.txt"
    path.write_bytes(b"caf\xe9\n")
    options = dataclasses.replace(options, input_file=(str(path),))
    with pytest.raises(InputError, match=r"in\.txt: line 1 is not UTF-8"):
        create(on_dask(options, tmp_path, lasting_cluster))
    assert not list((tmp_path / "dask").iterdir())


def test_an_error_while_listing_is_not_a_lost_scheduler(lasting_cluster):
    def items():
        yield 1
        raise OSError("no such volume")

    with (
        workers.DaskWorkers(lasting_cluster.scheduler_file, 1, print) as dask_workers,
        pytest.raises(OSError, match="^no such volume$"),
    ):
        list(dask_workers.map(abs, items()))


@pytest.mark.slow
def test_workers_that_are_lost_again_and_again():
    import distributed  # noqa: F401  # within dask.config.set, its defaults would go at the end

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        workers.DaskWorkers(None, 1, print) as dask_workers,
        pytest.raises(ChildProcessError, match="several Dask workers were lost in succession"),
    ):
        list(dask_workers.map(os._exit, [1]))


def test_a_folder_that_a_worker_cannot_see(tmp_path):
    with pytest.raises(InputError, match="`work_dir`: .*/none does not exist on .*; name a folder"):
        pretraining_data._prepare_worker(None, WorkFolder(str(tmp_path / "none")))


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("tcp://127.0.0.1:9", "no Dask scheduler answers there; give the address"),
        ("nonsense://x", "no Dask scheduler answers there"),
        ("none.json", "no such scheduler file"),
    ],
)
def test_no_scheduler(options, tmp_path, monkeypatch, scheduler, message):
    monkeypatch.setattr(workers, "_CONNECT_SECONDS", 1)
    options = dataclasses.replace(options, runner="dask", dask_scheduler=scheduler)
    with pytest.raises(InputError, match=f"`dask_scheduler`={scheduler}: {message}"):
        create(options)


def test_no_worker(options, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS_TO_FIRST_WORKER", 1)
    cluster = Cluster(tmp_path, count=0)
    with pytest.raises(InputError, match="no worker connected to it within 1 s"):
        create(on_dask(options, tmp_path, cluster))
    cluster.stop()

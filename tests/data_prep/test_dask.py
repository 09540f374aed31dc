"""A Dask cluster writes the files of a single machine, whatever happens to its workers."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator

import dask
import pytest

from albert_tf.errors import InputError
from data_prep import dask_workers, local_runner
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from data_prep.sentence_sample import sample_sentences
from data_prep.vocabulary import VocabularyOptions
from data_prep.work_folder import WorkFolder
from tests.conftest import ROOT
from tests.support.texts import contents_of_any_run, create

pytestmark = pytest.mark.integration


class Cluster:
    """A scheduler and two workers, each a process of its own."""

    def __init__(self, folder: pathlib.Path):
        self.scheduler_file = str(folder / "scheduler.json")
        common = ["--scheduler-file", self.scheduler_file, "--no-dashboard"]
        local = ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
        self.scheduler = self._start("scheduler", "--port", "0", "--host", "127.0.0.1", *common)
        while not os.path.exists(self.scheduler_file):
            assert self.scheduler.poll() is None
            time.sleep(0.05)
        self.workers = [self._start("worker", *common, *local) for _ in range(2)]

    def _start(self, *words: str) -> subprocess.Popen:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *words],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def stop(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def lasting_cluster(tmp_path_factory) -> Iterator[Cluster]:
    """Yield a cluster for all tests that leave its processes alone."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


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


def at_result(monkeypatch, number: int, action) -> None:
    """Call `action` before a result of the cluster is awaited."""
    result, calls = dask_workers.DaskWorkers._result, []

    def counted(self, future):
        calls.append(future)
        if len(calls) == number:
            action()
        return result(self, future)

    monkeypatch.setattr(dask_workers.DaskWorkers, "_result", counted)


def test_a_worker_killed_changes_nothing(options, expected, tmp_path, cluster, monkeypatch):
    # A run with other options first, in the same worker processes.
    other = dataclasses.replace(options, output_file=(str(tmp_path / "x"),), dupe_factor=1)
    create(on_dask(other, tmp_path / "other", cluster))
    at_result(monkeypatch, 3, cluster.workers[0].kill)
    create(on_dask(options, tmp_path, cluster))
    assert contents_of_any_run(tmp_path / "dask") == expected
    assert cluster.workers[0].poll() is not None


@pytest.mark.slow
def test_a_run_resumes_after_its_scheduler_is_lost(
    options, expected, tmp_path, cluster, monkeypatch, capsys, tmp_path_factory
):
    with monkeypatch.context() as patch:
        at_result(patch, 4, cluster.stop)
        with pytest.raises(ChildProcessError, match="lost the Dask scheduler at tcp://.*resume"):
            create(on_dask(options, tmp_path, cluster))
    (work,) = (tmp_path / "dask").iterdir()
    assert list(work.glob("unit-*.json"))
    other = Cluster(tmp_path_factory.mktemp("cluster"))
    create(on_dask(options, tmp_path, other))
    other.stop()
    assert "resuming the unfinished run" in capsys.readouterr().out
    assert contents_of_any_run(tmp_path / "dask") == expected


def test_extraction(tmp_path, lasting_cluster, corpus):
    written = []
    for runner, scheduler in ((None, None), ("dask", lasting_cluster.scheduler_file)):
        output = tmp_path / str(runner) / "corpus.txt"
        options = ExtractionOptions(
            format="text", input_file=(str(corpus),), output_file=str(output),
            eval_output_file=f"{output}.held_out", eval_fraction=0.3,
            near_duplicates=0.3, runner=runner, dask_scheduler=scheduler,
        )  # fmt: skip
        extract(options)
        written.append({path.name: path.read_bytes() for path in output.parent.iterdir()})
        written[-1].pop("corpus.corpus.json")
    assert written[0] == written[1]
    assert len(written[0]) == 4


def test_the_sample_of_a_vocabulary(lasting_cluster, corpus):
    common = {"input_file": (), "output_prefix": ""}
    local = VocabularyOptions(**common, num_processes=1)
    remote = VocabularyOptions(
        **common, runner="dask", dask_scheduler=lasting_cluster.scheduler_file
    )
    found = [sample_sentences([str(corpus)], 100, 1, options) for options in (local, remote)]
    assert found[0] == found[1]
    assert len(found[0]) == 100


@pytest.mark.slow
def test_a_cluster_of_its_own(options, expected, tmp_path):
    output = (str(tmp_path / "dask" / "train.tfrecord"),)
    create(dataclasses.replace(options, output_file=output, runner="dask", num_processes=2))
    assert contents_of_any_run(tmp_path / "dask") == expected


def test_errors_are_those_of_the_work(options, tmp_path, lasting_cluster):
    text = tmp_path / "in.txt"
    text.write_bytes(b"caf\xe9\n")
    with pytest.raises(InputError, match=r"in\.txt: line 1 is not UTF-8"):
        create(
            dataclasses.replace(
                on_dask(options, tmp_path, lasting_cluster), input_file=(str(text),)
            )
        )
    assert not list((tmp_path / "dask").iterdir())


def test_an_error_while_listing_is_not_a_lost_scheduler(lasting_cluster):
    def items():
        yield 1
        raise OSError("no such volume")

    with (
        dask_workers.DaskWorkers(lasting_cluster.scheduler_file, 1, print) as workers,
        pytest.raises(OSError, match="^no such volume$"),
    ):
        list(workers.map(abs, items()))


@pytest.mark.slow
def test_workers_that_are_lost_again_and_again():
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        dask_workers.DaskWorkers(None, 1, print) as workers,
        pytest.raises(ChildProcessError, match="several Dask workers were lost in succession"),
    ):
        list(workers.map(os._exit, [1]))


def test_a_folder_that_a_worker_cannot_see(tmp_path):
    with pytest.raises(InputError, match="`work_dir`: .*/none does not exist on .*; name a folder"):
        local_runner._prepare_worker(None, WorkFolder(str(tmp_path / "none")))


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        ("tcp://127.0.0.1:9", "no Dask scheduler answers there; give the address"),
        ("nonsense://x", "no Dask scheduler answers there"),
        ("none.json", "no such scheduler file"),
    ],
)
def test_no_scheduler(options, tmp_path, monkeypatch, scheduler, message):
    monkeypatch.setattr(dask_workers, "_CONNECT_SECONDS", 1)
    options = dataclasses.replace(options, runner="dask", dask_scheduler=scheduler)
    with pytest.raises(InputError, match=f"`dask_scheduler`={scheduler}: {message}"):
        create(options)


def test_no_worker(options, tmp_path, cluster, monkeypatch):
    monkeypatch.setattr(dask_workers, "_SECONDS_TO_FIRST_WORKER", 1)
    for worker in cluster.workers:
        worker.kill()
        worker.wait()
    with pytest.raises(InputError, match="no worker connected to it within 1 s"):
        create(on_dask(options, tmp_path, cluster))


def test_a_scheduler_requires_the_runner(options):
    with pytest.raises(InputError, match="`dask_scheduler`=tcp://a:1: needs `runner`=dask"):
        create(dataclasses.replace(options, dask_scheduler="tcp://a:1"))

"""What other workers do when one of them fails, or differs from them."""

import threading

import pytest

from albert_tf.engines import workers
from albert_tf.engines.workers import Board, Workers, shared_settings
from albert_tf.errors import InputError, StorageUnavailable, WorkerLost
from albert_tf.training.options import PretrainingOptions


@pytest.mark.parametrize(
    ("error", "of_others", "message"),
    [
        (OSError("full"), InputError, "failed with an error that it has printed"),
        # So that a scheduler restarts all of them.
        (StorageUnavailable("503"), WorkerLost, "cannot reach its files"),
    ],
)
def test_all_workers_end_as_the_one_that_fails(error, of_others, message):
    sent = []
    failing = Workers(("a:1", "b:1"), 1, lambda values: sent.append(values) or values)
    with pytest.raises(type(error)), failing.synchronized():
        raise error
    ((_, code),) = sent
    other = Workers(("a:1", "b:1"), 0, lambda values: [values[0], code])
    with pytest.raises(of_others, match=rf"worker 1 \(b:1\) {message}"), other.synchronized():
        pass


class Lost(Exception):
    """What a framework raises about another worker."""


class Pair:
    """Two workers, each in a thread."""

    def __init__(self, board: Board | None = None):
        self._barrier = threading.Barrier(2, timeout=30)
        self._values: list = [None, None]
        self.workers = [
            Workers(("a:1", "b:1"), index, self._total(index), board) for index in range(2)
        ]
        for each in self.workers:
            each._errors = (Lost,)

    def _total(self, index: int):
        def total(values):
            self._values[index] = values
            self._barrier.wait()
            sums = [one + two for one, two in zip(*self._values, strict=True)]
            self._barrier.wait()
            return sums

        return total

    def errors(self, work) -> list[Exception | None]:
        """Return what `work(worker, index)` raises in each."""
        found: list[Exception | None] = [None, None]

        def run(index: int) -> None:
            try:
                work(self.workers[index], index)
            except Exception as error:
                found[index] = error

        threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


MANIFEST = {"settings": {"masking": "static"}}
DIFFERENT = {
    "an option": ({"`dtype`": "float32"}, {"`dtype`": "auto"}, '`dtype`="auto"', '"float32"'),
    "fewer": ({"`a`": {"b": ["x", "y"]}}, {"`a`": {"b": ["x"]}}, "`a`: b: number=1", "2"),
    "a name": ({"`a`": ["x", "y"]}, {"`a`": ["x", "ü"]}, '`a`: 1="ü"', '"y"'),
    "missing": ({"`a`": MANIFEST}, {"`a`": {}}, "`a`: settings=null", '{"masking": "static"}'),
    "more": ({}, {"`a`": 0.5}, "`a`=0.5", "null"),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_ends_all_with_the_same_line(name):
    *values, own, chiefs = DIFFERENT[name]
    errors = Pair().errors(lambda worker, index: worker.check_same(values[index]))
    line = f"{own} for worker 1 of 2 (b:1), but {chiefs} for worker 0 (a:1); it must be the same"
    for error in errors:
        assert isinstance(error, InputError)
        assert str(error).startswith(line)


def test_no_difference():
    values = {"a": (1, 2), "b": MANIFEST}
    assert Pair().errors(lambda worker, index: worker.check_same(values)) == [None, None]


def test_what_may_differ():
    options = PretrainingOptions(output_dir="o", process_id=1, coordinator_address="h:1")
    compared = {name.strip("`") for name in shared_settings(options)}
    different = {"input_file", "output_dir", "init_checkpoint", "process_id", "coordinator_address"}
    assert not compared & different
    assert {"train_batch_size", "num_processes", "random_seed", "learning_rate"} <= compared


@pytest.fixture
def board(monkeypatch):
    """Yield a board in this process, and codes with which processes would have ended."""
    texts, written, codes = {}, threading.Condition(), []

    def write(key: str, text: str) -> None:
        with written:
            texts.setdefault(key, text)
            written.notify_all()

    def read(key: str) -> str:
        with written:
            written.wait_for(lambda: key in texts, timeout=30)
        return texts[key]

    monkeypatch.setattr(workers, "_GRACE_SECONDS", 0.2)
    monkeypatch.setattr(workers.os, "_exit", codes.append)
    monkeypatch.setattr(workers, "_LINGER_SECONDS", 0.0)
    yield Board(write, read), codes
    for index in range(2):
        write(f"albert_tf/failures/{index}", "")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (InputError("row 5"), "failed with an error that it has printed (row 5);", 1),
        (StorageUnavailable("503"), "cannot reach its files (503);", 75),
    ],
)
@pytest.mark.parametrize("notices", [False, True])
def test_a_worker_that_fails_alone_ends_the_others(board, caplog, error, message, code, notices):
    texts, codes = board
    pair = Pair(texts)
    threads = [worker._failures._thread for worker in pair.workers]

    def work(worker: Workers, index: int) -> None:
        with worker.losses_reported():
            if index == 1:
                raise error
            if notices:
                raise Lost("the connection to task:1 is closed")
            threads[0].join(30)  # waits for the other one, until the process ends

    chiefs, own = pair.errors(work)
    for thread in threads:
        thread.join(30)
    assert own is error
    assert codes == [code, code]
    line = f"worker 1 (b:1) {message}"
    assert (str(chiefs) if notices else caplog.messages[0]).startswith(line)
    assert len(caplog.messages) == (not notices)


def test_what_all_know_is_not_reported(board):
    texts, codes = board
    pair = Pair(texts)

    def work(worker: Workers, index: int) -> None:
        with worker.losses_reported(), worker.synchronized():
            if index:
                raise InputError("mine")

    assert [type(error) for error in pair.errors(work)] == [InputError, InputError]
    for worker in pair.workers:
        worker._failures._stop()
        assert not worker._failures._thread.is_alive()
    assert not codes

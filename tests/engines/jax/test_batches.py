"""Batches that are prepared ahead: in order, with the errors of their source, without traces."""

import contextlib
import gc
import itertools
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from albert_tf.engines.jax.engine import prefetched
from albert_tf.errors import InputError
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex
from tests.conftest import KERAS_ON_JAX
from tests.support.batches import STATIC, assert_same, write_files


class Numbers:
    """Batches that contain their number, which take the longer the smaller it is.

    Attributes:
        asked: the numbers of the batches that were asked for.
    """

    def __init__(self, count: int = sys.maxsize, errors: dict[int, Exception] | None = None):
        self.count, self.errors, self.asked = count, errors or {}, []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, step: int) -> dict[str, np.ndarray]:
        self.asked.append(step)
        time.sleep(0.002 * (step % 3 == 0))
        if step in self.errors:
            raise self.errors[step]
        return {"step": np.array([step])}


def steps(batches) -> list[int]:
    return [int(batch["step"][0]) for batch in batches]


def threads() -> list[threading.Thread]:
    gc.collect()
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = [t for t in threading.enumerate() if t.name.startswith(("grain", "read-"))]
        if not found:
            break
        time.sleep(0.01)
    return found


def test_batches_come_in_order_from_any_number_to_the_end():
    assert steps(prefetched(Numbers(20), 3)) == list(range(3, 20))
    assert steps(prefetched(Numbers(20), 20)) == steps(prefetched(Numbers(0))) == []
    far = 10**15
    with contextlib.closing(prefetched(Numbers(), far)) as batches:
        assert steps(itertools.islice(batches, 9)) == list(range(far, far + 9))


@pytest.mark.parametrize("error", [InputError("a: example 1 is damaged"), OSError(5, "no disk")])
def test_errors_come_in_their_place_as_they_are(error):
    batches, found = prefetched(Numbers(errors={5: error, 6: ValueError()})), []
    with pytest.raises(type(error)) as raised:
        found.extend(steps([batch])[0] for batch in batches)
    assert raised.value is error
    assert found == list(range(5))
    assert next(batches, None) is None
    assert not threads()


def test_threads_end_with_the_iterator():
    source = Numbers()
    closed, dropped, ended = (prefetched(source), prefetched(source), prefetched(Numbers(3)))
    for batches in (closed, dropped, ended):
        next(batches)
    assert any(t.name.startswith("grain") for t in threading.enumerate())
    closed.close()
    closed.close()
    steps(ended)
    assert next(closed, None) is None
    del dropped, batches
    assert not threads()
    assert len(source.asked) < 2 * 30  # the threads have stopped


@pytest.mark.integration
def test_records_read_ahead_are_those_of_the_source(tmp_path):
    index = RecordIndex.create(write_files(tmp_path))
    stream = RecordStream(index, STATIC, 8, 3, shuffle_buffer_size=20)
    source = stream.batches()
    with contextlib.closing(prefetched(stream.batches(), 7)) as batches:
        for step, found in enumerate(itertools.islice(batches, 60), 7):
            assert_same(found, source[step])
    del source
    assert not threads()
    path = index.files[index.file[2]]
    with open(path, "r+b") as file:
        file.seek(int(index.offset[2]) + 200)
        file.write(b"\xff")
    with pytest.raises(InputError, match=r"130.tfrecord: example 64 is damaged"):
        list(prefetched(stream.batches()))
    assert not threads()


@pytest.mark.slow
def test_an_open_iterator_does_not_keep_the_process(tmp_path):
    write_files(tmp_path)
    script = f"""
import glob
from albert_tf.engines.jax.engine import prefetched
from albert_tf.input.features import pretraining_features
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex

index = RecordIndex.create(sorted(glob.glob("{tmp_path}/*.tfrecord")))
stream = RecordStream(index, pretraining_features(16, 4), 8, 3, shuffle_buffer_size=20)
batches = prefetched(stream.batches())
next(batches)
print("got a batch")
"""
    environment = {**os.environ, **KERAS_ON_JAX}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "got a batch\n"), done.stderr

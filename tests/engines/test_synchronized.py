"""What other workers do when one of them fails."""

from __future__ import annotations

import pytest

from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, StorageUnavailable, WorkerLost


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

"""Training, predictions, results, saved folders and exports of every kind of task agree."""

import pytest

from tests.support.kinds_of_tasks import CASES, check


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_ways_to_train_and_predict_agree(tmp_path, name):
    check(tmp_path, name)

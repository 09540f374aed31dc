"""`--dtype=auto` and the record of what it chose."""

import json

import pytest

from albert_tf.errors import InputError
from tests.end_to_end.conftest import call

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_a_run_keeps_its_precision_on_another_machine(project, tmp_path, monkeypatch):
    def train(name: str, *flags: str) -> str:
        return call(*project.pretrain_words(tmp_path / name, "--do_train"), *flags)

    def processor(dtype: str) -> None:
        chosen = (dtype, "a test says so")
        monkeypatch.setattr("albert_tf.hardware.cpu_precision", lambda: chosen)

    processor("bfloat16")
    printed = train("out", "--dtype=auto", "--num_train_steps=6")
    assert "`dtype`=auto: bfloat16, since a test says so\n" in printed
    assert json.loads((tmp_path / "out" / "dtype.json").read_text()) == {"dtype": "bfloat16"}
    processor("float32")
    printed = train("out", "--dtype=auto", "--num_train_steps=12")
    assert f"`dtype`=auto: bfloat16, since the model in {tmp_path}/out is trained in it" in printed

    (tmp_path / "out" / "dtype.json").write_text('{"dtype": "float17"}')
    with pytest.raises(InputError, match="dtype='float17': must be one of float32, bfloat16"):
        train("out", "--dtype=auto")

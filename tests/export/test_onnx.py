"""docs/export.md, section ONNX: a converted encoder computes what the SavedModel does."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export.build import export_saved_model
from albert_tf.export.export_options import ExportOptions
from tests.support.models import TRAINED, write_trained

pytestmark = pytest.mark.slow

CONVERT = (sys.executable, "-m", "tf2onnx.convert", "--saved-model")


def test_the_encoder_as_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    path = f"{tmp_path}/export"
    export_saved_model(
        ExportOptions(
            init_checkpoint=write_trained(tmp_path / "trained"),
            export_path=path,
            preprocess=False,
        )
    )
    random = np.random.default_rng(0)
    length = TRAINED.max_position_embeddings
    for signature in ("serving_default", "mlm"):
        file = f"{tmp_path}/{signature}.onnx"
        words = (f"{path}/encoder", "--signature_def", signature, "--output", file)
        done = subprocess.run([*CONVERT, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        for batch, seq in ((1, 1), (2, 5), (3, length)):  # all dimensions are free
            mask = np.arange(seq) < random.integers(1, seq + 1, batch)[:, None]
            values = {
                "input_word_ids": random.integers(5, TRAINED.vocab_size, mask.shape) * mask,
                "input_mask": mask,
                "input_type_ids": random.integers(0, 2, mask.shape) * mask,
                "masked_lm_positions": random.integers(0, seq, (batch, 2)),
            }
            names = [each.name for each in session.get_inputs()]
            inputs = {name: values[name].astype("int32") for name in names}
            outputs = [each.name for each in session.get_outputs()]
            converted = dict(zip(outputs, session.run(outputs, inputs), strict=True))
            serve = tf.saved_model.load(f"{path}/encoder").signatures[signature]
            expected = serve(**{name: tf.constant(array) for name, array in inputs.items()})
            assert converted.keys() == expected.keys()
            for name, array in expected.items():
                np.testing.assert_allclose(converted[name], array, atol=1e-5)

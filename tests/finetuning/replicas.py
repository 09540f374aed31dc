"""Run by a test: batches of any length on 2 parts of the CPU, in micro-batches, as on one."""

import contextlib
import dataclasses
import io
import os
import pathlib
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

from albert_tf.finetuning.classification import Classification
from albert_tf.finetuning.run import fine_tune
from tests.finetuning.small import options_of, write_files


def main() -> None:
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    results = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_files(folder)
        for replicas, micro_batch_size, remat in ((1, 0, False), (1, 4, True), (2, 2, False)):
            options = options_of(
                folder,
                folder / f"out-{replicas}-{micro_batch_size}",
                train_step=25,
                albert_dropout=0.0,
                classifier_dropout=0.0,
                do_predict=True,
                micro_batch_size=micro_batch_size,
                remat=remat,
            )
            options = dataclasses.replace(options, strategy="mirrored", num_replicas=replicas)
            with contextlib.redirect_stdout(io.StringIO()):
                fine_tune(options, Classification)
            results.append(np.loadtxt(f"{options.output_dir}/test_results.tsv"))
    assert np.ptp(results[0][:, 0]) > 0.1, "it learns"
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=0, atol=1e-3)


if __name__ == "__main__":
    main()

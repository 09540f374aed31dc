"""Run by a test: batches of any length on 2 parts of the CPU, in micro-batches, as in one.

With labels of some rows, and a teacher.
"""

import contextlib
import dataclasses
import io
import json
import pathlib
import tempfile

import numpy as np

from albert_tf.finetuning.run import fine_tune
from albert_tf.tasks.classification.task import ClassificationTask
from tests.support.finetuning import options_of, write_files

MEASURES = ("loss", "gradient_norm", "parameter_norm")


def main() -> None:
    results, predictions = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_files(folder)
        table = (folder / "train.tsv").read_text().splitlines()
        table[1::3] = [line.split("\t")[0] + "\t" for line in table[1::3]]
        (folder / "some.tsv").write_text("\n".join(table) + "\n")
        taught = {"train_file": f"{folder}/some.tsv", "teacher": f"{folder}/out-0"}
        runs = ((1, 0, {}), (1, 0, taught), (2, 2, taught))
        for number, (replicas, micro_batch_size, learned) in enumerate(runs):
            options = options_of(
                folder,
                folder / f"out-{number}",
                train_step=4,
                iterations_per_loop=1,
                albert_dropout=0.0,
                classifier_dropout=0.0,
                do_eval=False,
                do_predict=True,
                micro_batch_size=micro_batch_size,
                **learned,
            )
            options = dataclasses.replace(options, strategy="mirrored", num_replicas=replicas)
            with contextlib.redirect_stdout(io.StringIO()):
                fine_tune(options, ClassificationTask)
            lines = (folder / options.output_dir / "metrics.jsonl").read_text().splitlines()
            rows = [json.loads(line) for line in lines]
            steps = [[row[name] for name in MEASURES] for row in rows]
            results.append(np.array(steps))
            predictions.append(np.loadtxt(f"{options.output_dir}/test_results.tsv"))
    assert len(results[0]) == 4
    assert (results[0].std(axis=0) > 1e-4).all(), "steps differ"
    assert (abs(results[0] - results[1]).max(axis=0) > 1e-2).all(), "the teacher has an effect"
    np.testing.assert_allclose(*results[1:], rtol=1e-3)
    np.testing.assert_allclose(*predictions[1:], rtol=0, atol=1e-4)

"""run_race.py, as a user would call it: RACE folders."""

import json
import pathlib
import random

import numpy as np
import pytest

from tests.end_to_end.conftest import LENGTH, call, results_of
from tests.support.html import read_page

pytestmark = pytest.mark.integration

ANIMALS = ("cat", "dog", "bird", "horse", "fish", "mouse")
TOOLS = ("saw", "drill", "file", "lathe", "hammer", "pliers")


def _choice(draw: random.Random) -> tuple[list[str], int]:
    """Return three or four words, and the number of the one that is an animal."""
    options = draw.sample(TOOLS, draw.choice((2, 3)))
    answer = draw.randrange(len(options) + 1)
    options.insert(answer, draw.choice(ANIMALS))
    return options, answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """Return a folder of RACE."""
    folder = tmp_path_factory.mktemp("race")
    for split, articles in (("train", 12), ("dev", 5), ("test", 5)):
        for level in ("middle", "high"):
            place = folder / "RACE" / split / level
            place.mkdir(parents=True)
            for number in range(articles):
                draw = random.Random(number + 100 * len(split + level))
                options, answers = zip(*(_choice(draw) for _ in range(4)), strict=True)
                record = {
                    "id": f"{level}{number}.txt",
                    "article": "The file is about <script> and names. " * 4,
                    "questions": ["It is a ____ ."] * 4,
                    "options": options,
                    "answers": ["ABCD"[answer] for answer in answers],
                }
                (place / f"{number}.txt").write_text(json.dumps(record) + "\n")
    return folder


def test_race_is_learned_evaluated_and_predicted(project, pretrained, folder, tmp_path):
    out = tmp_path / "out"
    words = (
        "run_race.py",
        f"--albert_config_file={project.config}",
        f"--spm_model_file={project.model}",
        f"--init_checkpoint={pretrained}",
        f"--data_dir={folder}",
        f"--output_dir={out}",
        f"--max_seq_length={LENGTH}",
        "--max_qa_length=20",
        "--train_batch_size=16",
        "--learning_rate=0.002",
        "--warmup_step=10",
        "--dropout_prob=0",
        "--save_checkpoints_steps=1000",
    )
    output = call(*words, "--train_step=150", "--do_predict")
    results = results_of(out)
    assert results["eval_accuracy"] > 0.9
    assert results["global_step"] == 150
    parts = [results[f"eval_accuracy_{level}"] for level in ("middle", "high")]
    assert results["eval_accuracy"] == pytest.approx(np.mean(parts))
    assert "eval_accuracy_middle = " in output

    answers = {}
    for path in (folder / "RACE" / "test").glob("*/*.txt"):
        record = json.loads(path.read_text())
        for number, answer in enumerate(record["answers"], start=1):
            answers[f"{record['id']}-{number}"] = answer
    lines = (out / "predictions.tsv").read_text().splitlines()
    predicted = dict(line.split("\t") for line in lines[1:])
    assert predicted.keys() == answers.keys()
    right = np.mean([predicted[name] == answer for name, answer in answers.items()])
    told = (out / "predict_results.txt").read_text().splitlines()[0]
    assert told == f"predict_accuracy = {right:.8g}"
    probabilities = np.loadtxt(out / "test_results.tsv")
    assert probabilities.shape == (40, 4)
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1, atol=1e-6)

    page = read_page((out / "report.html").read_text())
    for name in results_of(out):
        assert name in page.text
    for title in ("By set", "Letters", "Calibration", "Training curves", "Letters (predict)"):
        assert title in page.text

    # The folder alone is enough to evaluate again, and gives the same.
    call(*words, "--nodo_train", "--middle_only")
    assert results_of(out)["eval_accuracy"] == pytest.approx(results["eval_accuracy_middle"])

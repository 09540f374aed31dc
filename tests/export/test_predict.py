"""albert-predict gives the same results from an export as from the weights it was made of."""

from __future__ import annotations

import json

import pytest

from albert_tf.cli.predict import run
from albert_tf.prediction.options import PredictOptions


@pytest.mark.slow
def test_an_export_predicts_as_its_weights(classifier, exported_classifier, tmp_path):
    pairs = [{"text": "a cat, b.", "text_pair": "c"}, {"text": "b", "text_pair": "x y" * 9}]
    table = tmp_path / "pairs.jsonl"
    table.write_text("".join(f"{json.dumps(pair)}\n" for pair in pairs))

    def predictions(model) -> list[dict]:
        output = tmp_path / "out.jsonl"
        run(
            PredictOptions(
                model=str(model), input_file=str(table), text_pair_column="text_pair",
                output_file=str(output), batch_size=1,
            )
        )  # fmt: skip
        return [json.loads(line) for line in output.read_text().splitlines()]

    found = predictions(exported_classifier / "export")
    for ours, expected in zip(found, predictions(classifier), strict=True):
        assert ours["prediction"] == expected["prediction"]
        assert ours["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-6)

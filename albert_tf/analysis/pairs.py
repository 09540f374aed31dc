"""Accuracy on minimal pairs of sentences, by phenomenon; see `albert_tf.training.minimal_pairs`."""

from typing import Any

import keras

from albert_tf.analysis.analysis_options import PairsOptions, labeled_models
from albert_tf.analysis.models import open_model
from albert_tf.engines.base import create_engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.errors import arguments_renamed
from albert_tf.input.minimal_pairs import read_pairs
from albert_tf.report.sections import text_table, to_tsv
from albert_tf.terminal import ProgressLine
from albert_tf.text_models.masked_lm import MaskedLM
from albert_tf.training.minimal_pairs import PairScorer
from albert_tf.training.pair_results import pairs_table, results

# Columns of `scores.tsv`.
_SCORES = ("good", "bad", "original_good", "original_bad")


def run(options: PairsOptions) -> dict[str, Any]:
    """Print the accuracies of all models, and return `pairs.json` and `scores.tsv`."""
    models = labeled_models(options.model)
    pairs = read_pairs(options.input_file, "input_file", options.phenomenon_column)
    engine = create_engine(keras.backend.backend(), DeviceOptions(strategy="one_device"))
    found, rows, progress = [], [], ProgressLine()

    def show(done: int) -> None:
        progress.update(f"{done:,} of {2 * len(pairs):,} sentences")

    for label, name in models.items():
        preset = open_model(name, options)
        with arguments_renamed(name="model"):
            model = MaskedLM._from_preset(preset, "float32").model
        scorer = PairScorer(engine, model, preset.tokenizer, pairs, options.batch_size)
        scores = scorer.scores(show)
        progress.clear()
        by_word, original = (results(pairs, scores[..., kind]) for kind in (0, 1))
        shown = pairs_table(by_word, original)
        print(f"{label}: {len(pairs):,} pairs")
        print(text_table(shown.columns, shown.rows, shown.numbers))
        found.append({"label": label, "model": name, "pairs": by_word, "original": original})
        for pair, of_pair in zip(pairs, scores.swapaxes(1, 2).reshape(-1, 4).tolist(), strict=True):
            of_row = dict(zip(_SCORES, of_pair, strict=True))
            rows.append({"model": label, "pair": pair.location, **of_row})
    if options.output_dir is None:
        return {}
    return {"pairs.json": {"models": found}, "scores.tsv": to_tsv(rows)}

"""Studies are declared correctly, and what is made of their results is right.

One of one's own runs from its file, resumes after an interruption, and shares runs.
"""

import dataclasses
import json
import math
import pydoc_data.topics
import re

import numpy as np
import pytest
import scipy.stats

from albert_tf.errors import InputError
from albert_tf.options import flag_name
from albert_tf.training.options import PretrainingOptions
from data_prep.pretraining_data_options import PretrainingDataOptions
from experiments.__main__ import Options, run
from experiments.results import Estimate, Row, difference_of, table, verdict
from experiments.runs import Run, by_formula, config_of
from experiments.scales import SCALES, Scale
from experiments.studies import STUDIES, find_study
from experiments.study import MASKED_LM, OWN, PARAMETERS, Study
from experiments.workspace import Workspace
from tests.conftest import ROOT
from tests.end_to_end.conftest import LENGTH, PREDICTIONS, VOCAB_SIZE, call
from tests.support import tiny
from tests.support.texts import Killed

DATA_FLAGS = {flag_name(field) for field in dataclasses.fields(PretrainingDataOptions)}
TRAINING_FLAGS = {flag_name(field) for field in dataclasses.fields(PretrainingOptions)}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_asks_for_models_and_flags_that_exist(name, scale, tmp_path):
    study = find_study(name)
    workspace = Workspace(str(tmp_path), scale, {})
    variants = study.variants(scale)
    assert len({variant.name for variant in variants}) == len(variants)
    for variant in variants:
        assert config_of(workspace, variant).parameter_count() > 0
        assert set(variant.data) | set(scale.data) <= DATA_FLAGS
        assert set(variant.training) | set(scale.training) <= TRAINING_FLAGS
    for column in study.columns:
        assert column.on in (None, OWN, *study.evaluate_on)
    assert study.compared in study.columns
    if study.reference is not None:
        assert study.reference in {variant.name for variant in variants}


def test_the_papers_sizes_have_the_papers_parameters(tmp_path):
    """Tables 2 to 4 round to millions; xlarge and xxlarge are explained in docs/analysis.md."""
    workspace = Workspace(str(tmp_path), SCALES["paper"], {})
    for name in ("embedding_size", "sharing", "speed"):
        for variant in find_study(name).variants(workspace.scale):
            stated = variant.paper.get("parameters")
            if stated is None or stated in ("60M", "235M"):
                continue
            ours = by_formula(workspace, variant)["parameters"]
            assert ours == pytest.approx(float(stated.removesuffix("M")), abs=1.1), variant.name


def test_unknown_studies_are_refused(tmp_path):
    with pytest.raises(InputError, match="must be one of data, depth"):
        find_study("deepness")
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with pytest.raises(InputError, match="does not assign a Study"):
        find_study(str(empty))


def test_intervals_are_those_of_student_and_welch():
    one, other = [0.30, 0.32, 0.31], [0.25, 0.27, 0.23]
    estimate = Estimate.of(one)
    error = np.std(one, ddof=1) / math.sqrt(3)
    assert estimate.margin == pytest.approx(scipy.stats.t.ppf(0.975, 2) * error)
    difference = difference_of(one, other)
    assert difference.mean == pytest.approx(0.06)
    assert difference.is_clear == (scipy.stats.ttest_ind(one, other, equal_var=False).pvalue < 0.05)
    assert difference_of(one, [0.1]) is None
    # A constant has no spread: the interval is that of the other values.
    constant = difference_of(one, [0.25] * 3)
    assert constant.low == pytest.approx(estimate.low - 0.25)
    assert difference_of([0.25] * 3, one).high == pytest.approx(0.25 - estimate.low)
    assert math.isnan(Estimate.of([0.3]).margin)


def _study(**changes) -> Study:
    fields = {"title": "T", "source": "s", "question": "q?", "variants": lambda scale: ()}
    return Study(**{**fields, "columns": (MASKED_LM,), **changes})


def _row(name: str, mean: float, average: float | None = None, spread: float = 0.001) -> Row:
    values = {MASKED_LM.heading: [mean - spread, mean, mean + spread]}
    return Row(name, values, (), {} if average is None else {"Avg": average})


def test_the_verdict_is_whether_clear_differences_are_those_of_the_paper():
    rows = [_row("a", 0.3, 80.0), _row("b", 0.2, 79.0), _row("c", 0.4, 78.0), _row("d", 0.4)]
    assert verdict(_study(), rows).startswith("partly: 1 of 3 clear differences in “masked")
    assert verdict(_study(), rows[:2]).startswith("holds: 1 of 1")
    assert verdict(_study(), rows[1:]).startswith("does not: 0 of 1")
    noisy = [_row("a", 0.30, 80.0, 0.1), _row("b", 0.29, 79.0, 0.1)]
    assert verdict(_study(), noisy).startswith("open: no clear difference")
    study = _study(columns=(PARAMETERS, MASKED_LM))
    rows = [
        dataclasses.replace(each, values=each.values | {PARAMETERS.heading: [1.0]})
        for each in noisy
    ]
    heads, _, _, last = table(study, rows).splitlines()[:4]
    assert heads == "|  | masked-token accuracy, % | difference | parameters, millions |"
    assert last.endswith("| (-1) | 1 |"), "results are first, where a phone shows them"


def test_a_head_that_was_not_trained_has_chance_in_its_place(tmp_path, monkeypatch):
    study = find_study("sentence_order")
    workspace = Workspace(str(tmp_path), SCALES["tiny"], {})
    monkeypatch.setattr(Workspace, "text_digest", lambda self: "text")
    monkeypatch.setattr(Run, "train", lambda self: None)
    monkeypatch.setattr(Run, "_trained", lambda self: {})
    accuracies = ("masked_lm_accuracy", "next_sentence_accuracy", "sentence_order_accuracy")
    monkeypatch.setattr(Run, "_evaluated", lambda self, flags: dict.fromkeys(accuracies, 0.75))
    rows = [
        Row.of(each, study.columns, {}, [Run(workspace, each, 0).measured(study)] * 2)
        for each in study.variants(workspace.scale)
    ]
    text = table(study, rows)
    assert "| none | 50.0 (chance) |  | 75 | 50.0 (chance) |" in text
    assert "| SOP | 75 | (+0) | 75 | 75 |" in text


SCALE = Scale(
    name="tiny",
    config=dataclasses.replace(tiny.CONFIG, vocab_size=VOCAB_SIZE, max_position_embeddings=LENGTH),
    data={
        "max_seq_length": LENGTH,
        "max_predictions_per_seq": PREDICTIONS,
        "masking": "dynamic",
        "dupe_factor": 1,
    },
    training={"train_batch_size": 8, "num_train_steps": 20, "num_warmup_steps": 2},
    finetuning={},
    minutes=1,
    timed_batch=(2, LENGTH),
)


@pytest.mark.manual
def test_the_study_of_the_page_resumes_and_shares_its_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(SCALES, "tiny", SCALE)
    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "experiments" / "README.md").read_text("utf-8"), re.DOTALL
    )
    (tmp_path / "activation.py").write_text(code)
    topics = [text for _, text in sorted(pydoc_data.topics.topics.items())][:40]
    documents = ["\n".join(" ".join(p.split()) for p in text.split("\n\n")) for text in topics]
    (tmp_path / "raw.txt").write_text("\n\n".join(documents))
    finished: list[tuple[str, ...]] = []
    kill_after = 6  # the text, the vocabulary, two files of records, a training, an evaluation

    def in_this_process(self, log, *words):
        if len(finished) == kill_after:
            raise Killed
        call(*words[words[0] == "-m" :])
        finished.append(words)

    monkeypatch.setattr(Workspace, "run", in_this_process)
    options = Options(
        studies=(str(tmp_path / "activation.py"),),
        output_dir=str(tmp_path / "out"),
        seeds=1,
        input_file=(str(tmp_path / "raw.txt"),),
        format="text",
        eval_fraction=0.2,
    )
    with pytest.raises(Killed):
        run(options)
    kill_after = -1
    run(options)
    trained = [words for words in finished if "--do_train" in words]
    assert len(trained) == 2
    assert len([words for words in finished if "--do_eval" in words]) == 2
    assert len({word for words in trained for word in words if "output_dir" in word}) == 2
    results = json.loads((tmp_path / "out/tiny/activation/results.json").read_text("utf-8"))
    gelu, relu = results["rows"]
    assert (gelu["name"], relu["name"]) == ("gelu", "relu")
    assert gelu["values"]["masked-token accuracy, %"] != relu["values"]["masked-token accuracy, %"]
    assert (tmp_path / "out/tiny/activation/picture.svg").exists()
    assert "| gelu |" in capsys.readouterr().out

    # Another study with one of the same models trains nothing.
    (tmp_path / "relu.py").write_text(code.replace('("gelu", "relu")', '("relu",)'))
    finished.clear()
    options = Options(**{**vars(options), "studies": (str(tmp_path / "relu.py"),)})
    run(options)
    assert not [words for words in finished if "run_pretraining.py" in words]
    (row,) = json.loads((tmp_path / "out/tiny/relu/results.json").read_text("utf-8"))["rows"]
    assert row["values"] == relu["values"]

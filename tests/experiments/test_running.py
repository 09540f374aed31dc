"""A study of one's own runs from its file, resumes after an interruption, and shares runs."""

import json
import pydoc_data.topics
import re

import pytest

from albert_tf.config import AlbertConfig
from experiments.__main__ import Options, run
from experiments.scales import SCALES, Scale
from experiments.workspace import Workspace
from tests.conftest import ROOT
from tests.end_to_end.conftest import LENGTH, PREDICTIONS, VOCAB_SIZE, call
from tests.support.texts import Killed

SCALE = Scale(
    name="tiny",
    config=AlbertConfig(
        vocab_size=VOCAB_SIZE,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    ),
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
        r"```python\n(.*?)```", (ROOT / "docs" / "experiments.md").read_text("utf-8"), re.DOTALL
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
    assert gelu["values"]["masked tokens, %"] != relu["values"]["masked tokens, %"]
    assert (tmp_path / "out/tiny/activation/masked_lm_accuracy.svg").exists()
    assert "| gelu |" in capsys.readouterr().out

    # Another study with one of the same models trains nothing.
    same = code.replace('("gelu", "relu")', '("relu",)')
    (tmp_path / "relu.py").write_text(same)
    finished.clear()
    options = Options(**{**vars(options), "studies": (str(tmp_path / "relu.py"),)})
    run(options)
    assert not [words for words in finished if "run_pretraining.py" in words]
    (row,) = json.loads((tmp_path / "out/tiny/relu/results.json").read_text("utf-8"))["rows"]
    assert row["values"] == relu["values"]

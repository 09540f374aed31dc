"""Every change of docs/extending.md: how many files it touches, and that it works when used.

A kind of fine-tuning task is described in albert_tf/tasks/README.md.
"""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import textwrap
from typing import NamedTuple

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import results_of
from tests.support import finetuning

pytestmark = pytest.mark.integration

# Section -> the most files that its change may touch.
LIMITS = {
    "A learning-rate schedule": 2,
    "An optimizer": 2,
    "A task like those of GLUE": 1,
    "A corpus format": 2,
    "Attention": 1,
    "A pretraining objective": 2,
    "A kind of fine-tuning task": 8,
}


_PAGES = (ROOT / "docs" / "extending.md", ROOT / "albert_tf" / "tasks" / "README.md")
# "In `path`...:" before a diff, "New file `path`...:" before a whole file.
_CHANGE = re.compile(
    r"(?P<kind>[Ii]n|New\s+file) `(?P<path>[\w./]+)`(?:(?!```).)*?:\n\n"
    r"(?P<code>[ ]*```(?:diff|python)\n.*?\n[ ]*```)(?=\n)",
    re.DOTALL,
)


class Change(NamedTuple):
    """What a section does to one file: its content, or a diff."""

    path: str
    code: str
    is_new: bool


def changes_of(section: str) -> list[Change]:
    """Return the changes of the section with this heading."""
    _, text = "".join(page.read_text() for page in _PAGES).split(f"\n## {section}\n")
    text = text.split("\n## ")[0]
    found = []
    for match in _CHANGE.finditer(text):
        _, *lines, _ = textwrap.dedent(match["code"]).splitlines()
        is_new = match["kind"].startswith("New")
        found.append(Change(match["path"], "\n".join(lines) + "\n", is_new))
    assert len(found) == len(re.findall(r"```(?:diff|python)\n", text))
    return found


def apply(section: str, folder: pathlib.Path) -> set[str]:
    """Make the changes of a section in a copy of the project.

    Returns:
        The files that it touches.
    """
    touched = set()
    for change in changes_of(section):
        path = folder / change.path
        if change.is_new:
            assert not path.exists(), path
            path.parent.mkdir(exist_ok=True)
            path.write_text(change.code)
        else:
            text = path.read_text()
            for hunk in change.code.split("@@\n"):
                text = _patched(text, hunk, change.path)
            path.write_text(text)
        touched.add(change.path)
    return touched


def _patched(text: str, hunk: str, path: str) -> str:
    lines = hunk.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] != "+")
    after = "".join(line[1:] for line in lines if line[0] != "-")
    assert text.count(before) == 1, f"{path} contains {text.count(before)} times:\n{before}"
    return text.replace(before, after)


@pytest.fixture
def extended(request, tmp_path):
    """Return a copy of the project with the changes of some sections."""
    folder = tmp_path / "project"
    for name in ("albert_tf", "data_prep"):  # with what is compiled
        shutil.copytree(ROOT / name, folder / name)
    for script in ("run_pretraining.py", "run_classifier.py"):
        shutil.copy(ROOT / script, folder)
    for section in request.param:
        touched = apply(section, folder)
        assert len(touched) <= LIMITS[section], touched
    return folder


def run(folder, *words, lines=""):
    """Run Python in the extended project on lines of standard input; return what it prints."""
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "KERAS_BACKEND": "tensorflow"},
        input=lines,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_sections(*names):
    return pytest.mark.parametrize("extended", [names], indirect=True, ids=[" and ".join(names)])


@of_sections("A task like those of GLUE")
def test_a_task_like_those_of_glue(extended, tmp_path):
    folder = tmp_path / "scitail"
    folder.mkdir()
    rows = "premise\thypothesis\tlabel\tindex\na b\tb\tentails\t0\nb c\td\tneutral\t1\n"
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text(rows)
    code = """
        import sys
        from albert_tf.tasks.classification.benchmarks import GLUE
        from albert_tf.tasks.classification.datasets import read_examples
        dataset = GLUE["SciTail"].located(sys.argv[1], ("train", "eval"))
        (rows,) = dataset.sets["eval"]
        for example in read_examples(dataset, rows, labeled=True):
            print(example.text, example.text_pair, example.label, sep="|")
        print(dataset.labels)
    """
    printed = run(extended, "-c", textwrap.dedent(code), tmp_path)
    assert printed == "a b|b|entails\nb c|d|neutral\n('entails', 'neutral')\n"


@of_sections("A corpus format")
def test_a_corpus_format(extended, tmp_path):
    (tmp_path / "page.md").write_text("# Heading\n\nOne. Two.\n\n```\ncode\n```\n\nThree\nlines.\n")
    output = tmp_path / "corpus.txt"
    flags = ("--format=markdown", f"--input_file={tmp_path}/*.md", f"--output_file={output}")
    run(extended, "-m", "data_prep.extract_corpus", *flags)
    assert output.read_text().split() == ["One.", "Two.", "Three", "lines."]


SCHEDULE = """
    from albert_tf.optimization import create_schedule
    from albert_tf.training.options import PretrainingOptions
    options = PretrainingOptions(
        albert_config_file="x", output_dir="x", schedule="inverse_sqrt", learning_rate=0.5,
        num_train_steps=1000, num_warmup_steps=100,
    )
    schedule = create_schedule(options.schedule, **options.schedule_arguments())
    rates = [round(float(schedule(step)), 6) for step in (0, 50, 100, 400)]
    assert rates == [0.0, 0.25, 0.5, 0.25], rates
"""

OPTIMIZER = """
    import keras
    import numpy as np
    from albert_tf.optimization import create_optimizer
    weights = keras.Variable([1.0, 1.0], name="kernel")
    optimizer = create_optimizer("lion", 0.1, weight_decay_rate=0.5, bias_correction=True)
    for gradient in ([200, -1], [-1, -1]):  # the second one does not turn the momentum
        optimizer.apply([np.float32(gradient)], [weights])
    assert np.allclose(weights, [0.7075, 1.0975]), weights
"""

ATTENTION = """
    import numpy as np
    from albert_tf import AlbertConfig, AlbertEncoder
    config = AlbertConfig(
        vocab_size=20, embedding_size=4, hidden_size=8, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=8, max_position_embeddings=16,
    )
    encoder = AlbertEncoder(config, attention="query_key_norm")
    ids = np.arange(12).reshape(2, 6)
    mask = np.array([[1, 1, 1, 1, 0, 0], [1] * 6])
    whole = encoder({"input_ids": ids, "input_mask": mask})["sequence_output"]
    short = encoder({"input_ids": ids[:1, :4]})["sequence_output"]
    assert np.allclose(whole[:1, :4], short, atol=1e-5)  # padding is invisible
    copy = AlbertEncoder.from_config(encoder.get_config())
    copy.set_weights(encoder.get_weights())
    assert np.allclose(copy({"input_ids": ids})["pooled_output"],
                       encoder({"input_ids": ids})["pooled_output"])
    plain = AlbertEncoder(config)
    plain.set_weights(encoder.get_weights())
    difference = plain({"input_ids": ids})["sequence_output"]
    difference -= encoder({"input_ids": ids})["sequence_output"]
    assert abs(np.asarray(difference)).max() > 1e-3
"""

TRAINING = """
    from albert_tf.cli.pretrain import main
    main()
"""


# One process, for TensorFlow takes longer to load than all else.
@of_sections("A learning-rate schedule", "An optimizer", "Attention", "A pretraining objective")
@pytest.mark.slow
def test_a_schedule_an_optimizer_an_attention_and_a_pretraining_objective(extended, tmp_path):
    finetuning.write_files(tmp_path)
    words = sum(finetuning.WORDS.values(), [])
    lines = [" ".join(words[i % len(words)] for i in range(n, n + 5)) for n in range(400)]
    documents = ["\n".join(lines[i : i + 40]) for i in range(0, 400, 40)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(documents) + "\n")
    lengths = (f"--max_seq_length={finetuning.LENGTH}", "--max_predictions_per_seq=3")
    printed = run(
        extended,
        *("-m", "data_prep.create_pretraining_data", f"--input_file={tmp_path}/corpus.txt"),
        *(f"--output_file={tmp_path}/train.tfrecord", f"--vocab_file={tmp_path}/vocab.txt"),
        *(*lengths, "--dupe_factor=2", "--pair_objective=distance"),
    )
    share = float(printed.split("distant ")[1].split("%")[0])
    assert 20 < share < 60
    run(
        extended,
        *("-c", "".join(map(textwrap.dedent, (SCHEDULE, OPTIMIZER, ATTENTION, TRAINING)))),
        *("--do_train", "--do_eval", f"--output_dir={tmp_path}/out", "--schedule=inverse_sqrt"),
        "--optimizer=lion",
        *(
            f"--input_file={tmp_path}/train.tfrecord",
            f"--albert_config_file={tmp_path}/config.json",
        ),
        *(*lengths, "--train_batch_size=8", "--num_train_steps=3", "--num_warmup_steps=1"),
        *("--eval_batch_size=8", "--max_eval_steps=2"),
    )
    results = (tmp_path / "out" / "eval_results.txt").read_text()
    assert "sentence_distance_accuracy = " in results
    assert "sentence_order" not in results


KINDS = {word: kind for kind, words in finetuning.WORDS.items() for word in words}


def write_pairs(path, count, seed):
    """Return pairs that "mean the same" if the word at the given characters is an animal."""
    draw = random.Random(seed)
    lines, answers = [], []
    for _ in range(count):
        word, row = draw.choice(list(KINDS)), {}
        for number in "12":
            words = draw.choices(list(KINDS), k=draw.randint(0, 14))
            place = draw.randint(0, len(words))
            row[f"start{number}"] = len(" ".join([*words[:place], ""]))
            row[f"sentence{number}"] = " ".join([*words[:place], word, *words[place:]])
        answers.append(str(KINDS[word] == "animal"))
        lines.append(json.dumps({**row, "word": word, "label": KINDS[word] == "animal"}) + "\n")
    path.write_text("".join(lines))
    return answers


# Everything that a kind has besides its command: the model on strings, its export, albert-predict.
USE_OF_A_KIND = """
    import json, pathlib, sys
    import numpy as np
    from albert_tf.cli.predict import run
    from albert_tf.prediction.tasks import PredictOptions
    from albert_tf.tasks.word_in_context.__main__ import main
    from albert_tf.tasks.word_in_context.task import WordInContext
    from albert_tf.tasks.word_in_context.text_model import WordComparer

    folder = pathlib.Path(sys.argv[1])
    lines = (folder / "predict.jsonl").read_text().splitlines()
    fields = ("sentence1", "sentence2", "start1", "start2", "label")
    rows = [WordInContext(*(json.loads(line)[name] for name in fields)) for line in lines]
    model = WordComparer.from_preset(str(folder / "out"))
    expected = model.predict_proba(rows)
    assert model.evaluate(rows) == {"eval_accuracy": 1.0}
    model.save(str(folder / "saved"))
    model.export(str(folder / "export"), preprocess=False)
    predicted = (folder / "out" / "predictions.tsv").read_text().split()
    for name in ("saved", "export"):
        output = folder / f"{name}.jsonl"
        run(PredictOptions(model=str(folder / name), input_file=str(folder / "predict.jsonl"),
                           output_file=str(output)))
        results = [json.loads(line) for line in output.read_text().splitlines()]
        assert [str(row["prediction"]) for row in results] == predicted
        probabilities = [row["probability"] for row in results]
        np.testing.assert_allclose(probabilities, expected, atol=1e-6)
    new = WordComparer.from_preset(str(folder / "saved"), albert_dropout=0.0)
    assert new.fit(rows, steps=1, verbose=0).epoch == [0]
    # The folder alone predicts what standard input brings.
    sys.argv[1:] = ["--do_predict", f"--output_dir={folder}/out", "--predict_file=-"]
    print("predictions:")
    main()
"""


@of_sections("A kind of fine-tuning task")
@pytest.mark.slow
def test_a_kind_of_fine_tuning_task(extended, tmp_path):
    finetuning.write_files(tmp_path)
    expected = write_pairs(tmp_path / "predict.jsonl", 9, seed=3)
    for name, count, seed in (("train", 64, 1), ("eval", 20, 2)):
        write_pairs(tmp_path / f"{name}.jsonl", count, seed)
    command = ("-m", "albert_tf.tasks.word_in_context", f"--output_dir={tmp_path}/out")
    printed = run(
        extended,
        *(*command, "--do_train", "--do_eval", "--do_predict"),
        *(f"--{split}_file={tmp_path}/{split}.jsonl" for split in ("train", "eval", "predict")),
        *(f"--albert_config_file={tmp_path}/config.json", f"--vocab_file={tmp_path}/vocab.txt"),
        *(f"--max_seq_length={finetuning.LENGTH}", "--train_batch_size=8", "--train_step=40"),
        *("--eval_every_steps=20", "--learning_rate=0.01", "--albert_dropout=0"),
    )
    out = tmp_path / "out"
    assert "eval_accuracy" in printed
    assert results_of(out)["eval_accuracy"] > 0.95
    assert "The same meaning: " in (out / "report.html").read_text()
    recorded = json.loads((out / "word_in_context.json").read_text())
    assert recorded == {"max_seq_length": finetuning.LENGTH}
    assert (out / "predictions.tsv").read_text().split() == expected
    rows = [
        {"sentence1": f"a {word}", "start1": 2, "sentence2": word, "start2": 0}
        for word in ("cat", "drill")
    ]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    printed = run(extended, "-c", textwrap.dedent(USE_OF_A_KIND), tmp_path, lines=lines)
    assert printed.partition("predictions:\n")[2] == "True\nFalse\n"
    # Its errors name its flags.
    code = f"""
        import contextlib, io, sys
        from albert_tf.tasks.word_in_context.__main__ import main
        sys.argv[1:] = ["--do_eval", "--output_dir={out}"]
        with contextlib.redirect_stderr(io.StringIO()) as errors, contextlib.suppress(SystemExit):
            main()
        assert "--eval_file: a file is required" in errors.getvalue(), errors.getvalue()
    """
    run(extended, "-c", textwrap.dedent(code))


def test_a_kind_of_fine_tuning_task_is_a_folder_and_a_line():
    files = {change.path for change in changes_of("A kind of fine-tuning task")}
    outside = {path for path in files if not path.startswith("albert_tf/tasks/word_in_context/")}
    assert outside == {"albert_tf/task_kinds.py"}

"""`--task_name=all`: which commands are run, what is skipped, and the table of results."""

from __future__ import annotations

import os

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, Stopped
from albert_tf.tasks.classification.glue import run_all as glue
from albert_tf.tasks.classification.glue.results import PAPER, TaskResult, result_table
from albert_tf.tasks.classification.glue.tasks import GLUE
from tests.end_to_end.conftest import results_of, run
from tests.support.finetuning import write_files
from tests.support.glue_files import write_hub_task, write_task

parsed = glue._parsed


@pytest.fixture
def words(tmp_path):
    for task in ("RTE", "MNLI", "AX", "MRPC"):
        write_task(tmp_path / "glue", task)
    (tmp_path / "glue" / "MRPC" / "test.tsv").unlink()
    (tmp_path / "config.json").write_text(AlbertConfig.preset("base").to_json())
    return [
        "--task_name=all",
        f"--data_dir={tmp_path}/glue",
        f"--output_dir={tmp_path}/out",
        f"--albert_config_file={tmp_path}/config.json",
        "--train_batch_size=4",
    ]


@pytest.fixture
def ran(monkeypatch):
    """Return the options of the commands that were run; `codes` has exit codes of tasks."""

    class Ran(list):
        codes: dict[str, int] = {}

    ran = Ran()

    def exit_code(command):
        options = parsed(command[2:])
        ran.append(options)
        code = ran.codes.get(options.task_name, 0)
        if not code and options.do_eval:
            os.makedirs(options.output_dir, exist_ok=True)
            with open(f"{options.output_dir}/eval_results.txt", "w") as file:
                file.write("eval_accuracy = 0.75\nglobal_step = 7\n")
        return code

    monkeypatch.setattr(glue, "_exit_code", exit_code)
    return ran


def test_every_task_has_its_recipe_and_the_flags_of_the_command(words, ran, tmp_path, capsys):
    glue.run_all(parsed(words), words)
    assert [(each.task_name, each.output_dir) for each in ran] == [
        ("MRPC", f"{tmp_path}/out/MRPC"),
        ("MNLI", f"{tmp_path}/out/MNLI"),
        ("AX", f"{tmp_path}/out/MNLI"),
        ("RTE", f"{tmp_path}/out/RTE"),
    ]
    mrpc, mnli, diagnostic, rte = ran
    assert (mnli.learning_rate, mnli.train_step, mnli.submission) == (3e-5, 10000, True)
    assert (rte.learning_rate, rte.train_step, rte.train_batch_size) == (3e-5, 800, 4)
    assert (diagnostic.do_train, diagnostic.do_eval, diagnostic.do_predict) == (False, False, True)
    assert (mrpc.do_predict, mrpc.submission) == (False, False), "it has no rows to predict"
    rows = [line.split("\t") for line in (tmp_path / "out" / "glue.tsv").read_text().splitlines()]
    assert rows[0] == ["task", "metric", "result", "paper", "README, base_v2"]
    assert ["MNLI", "eval_accuracy", "75.0", "90.8", "84.6"] in rows
    assert ["QQP", "eval_accuracy", "no files", "92.2", ""] in rows
    assert f"left out: QQP: there is no folder {tmp_path}/glue/QQP" in capsys.readouterr().out
    assert "table 9" in (tmp_path / "out" / "report.html").read_text()


def test_failed_tasks_are_repeated_and_finished_ones_are_not(words, ran, tmp_path):
    ran.codes = {"MNLI": 1, "AX": 1}
    with pytest.raises(InputError, match="2 of 4 tasks failed: MNLI, AX; rerun"):
        glue.run_all(parsed(words), words)
    assert "MNLI\teval_accuracy\tfailed" in (tmp_path / "out" / "glue.tsv").read_text()
    ran.clear()
    ran.codes = {"MNLI": 143}
    with pytest.raises(Stopped, match="stopped at MNLI"):
        glue.run_all(parsed(words), words)
    ran.codes = {}
    glue.run_all(parsed(words), words)
    assert [each.task_name for each in ran] == ["MNLI", "MNLI", "AX"]
    ran.clear()
    write_task(tmp_path / "glue", "RTE", rows=9)
    glue.run_all(parsed(words), words)
    assert [each.task_name for each in ran] == ["RTE"], "its files have changed"
    other = [*words, "--num_train_epochs=3"]
    glue.run_all(parsed(other), other)
    assert len(ran) == 5
    (tmp_path / "out" / "glue.json").write_text('{"RTE": 1}')
    with pytest.raises(InputError, match="out/glue.json: .* must be str, not int"):
        glue.run_all(parsed(words), words)


def test_what_cannot_work_is_named_before_anything_runs(words, ran, tmp_path):
    for more, message in (
        (["--data_dir=none"], "`data_dir`=none: contains the files of no task"),
        (["--train_batch_size=0"], "`train_batch_size`=0: must be at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            glue.run_all(parsed([*words, *more]), [*words, *more])
    assert not ran
    assert not (tmp_path / "out").exists()


def test_files_as_on_the_hub(words, ran, tmp_path):
    write_hub_task(tmp_path / "hub", "RTE")
    words = [*words, f"--data_dir={tmp_path}/hub"]
    glue.run_all(parsed(words), words)
    assert [(each.task_name, each.data_dir) for each in ran] == [("RTE", f"{tmp_path}/hub/rte")]


def test_means_are_compared_over_the_same_tasks():
    results = [TaskResult(name, {"eval_accuracy": 0.5, "pearson": 0.9}) for name in PAPER]
    assert len(result_table(results, None).rows) == 8, "without a score for CoLA"
    scores = {"eval_accuracy": 0.5, "pearson": 0.9, "matthew_corr": 0.1}
    results = [TaskResult(name, scores) for name in ("WNLI", *PAPER)]
    assert result_table(results, None).rows[-1] == ("mean of these 8", "", "50.0", "90.0")
    assert set(PAPER) < set(GLUE)


@pytest.mark.slow
@pytest.mark.integration
def test_a_real_run(tmp_path):
    write_files(tmp_path)
    write_task(tmp_path / "glue", "STS-B")
    words = (
        "run_classifier.py", "--task_name=all", f"--data_dir={tmp_path}/glue",
        f"--albert_config_file={tmp_path}/config.json", f"--vocab_file={tmp_path}/vocab.txt",
        f"--output_dir={tmp_path}/out", "--max_seq_length=24", "--train_step=2",
        "--warmup_step=0", "--eval_every_steps=1",
    )  # fmt: skip
    output, _ = run(*words)
    assert "STS-B  pearson" in output
    assert results_of(tmp_path / "out" / "STS-B")["global_step"] in (1, 2)
    assert (tmp_path / "out" / "STS-B" / "submission" / "STS-B.tsv").exists()
    output, _ = run(*words)
    assert output.count("already finished") == 1

"""The benchmark of one GPU, on a CPU: what it computes and reports; how fast is not looked at."""

import dataclasses
import json
import os
import subprocess

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from benchmarks import accelerator, comparison
from benchmarks.interleaving import ProcessFailed
from tests.benchmarks.test_suite import Actor
from tests.conftest import KERAS_ON_JAX, ROOT
from tests.support import tiny

pytestmark = pytest.mark.integration

# With weights so large that it shows in the loss where anything attends.
CONFIG = dataclasses.replace(
    tiny.CONFIG,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.3,
)


@pytest.fixture(scope="module")
def config_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("config") / "tiny.json"
    path.write_text(CONFIG.to_json())
    return str(path)


def run_on_jax(*words):
    environment = {**os.environ, **KERAS_ON_JAX}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_command_runs_without_tensorflow_and_writes_what_it_measured(
    peers, config_file, tmp_path
):
    printed = run_on_jax(
        *(peers, "-c"),
        "import sys; sys.modules['tensorflow'] = None; "
        "from benchmarks.accelerator import cli; cli()",
        *(f"--albert_config_file={config_file}", "--batch_sizes=2", "--attention=plain"),
        *("--max_seq_length=16", "--max_predictions_per_seq=4", "--product_size=64"),
        *("--hugging_face=eager", "--steps=1", "--repeats=2", "--peak_tflops=0.001"),
        f"--results={tmp_path / 'results'}",
    )
    assert "| tiny.json, 2 x 16 | albert_tf on JAX | " in printed
    written = json.loads((tmp_path / "results" / "accelerator.json").read_text())
    assert written["values"]["note"] == accelerator.STILL_TO_BE_TAKEN
    assert written["values"]["device"] == {"platform": "cpu", "name": "cpu"}
    assert written["left_out"] == {}

    ours, theirs = written["measurements"]
    assert (ours["implementation"], ours["compared_with"]) == ("albert_tf on JAX", "Hugging Face")
    flops = pretraining_flops(CONFIG, 16, 4)
    for made in (ours, theirs):
        assert len(made["seconds"]) == len(made["matrix_products_flops_per_second"]) == 2
        rates = [2 / seconds for seconds in made["seconds"]]
        assert made["mfu"] == pytest.approx(flops * sum(rates) / 2 / 1e9)


class OnGpu(Actor):
    """A step takes a second, and ten the first time; a product a microsecond."""

    failing: dict[str, str] = {}
    platforms: dict[str, str] = {}

    def run(self, steps):
        if self.name in self.failing:
            raise ProcessFailed(self, self.failing[self.name], 1)
        self.count += 1
        self.device = {
            "platform": self.platforms.get(self.name, "gpu"),
            "name": "NVIDIA H100 80GB HBM3",
            "peak_memory": 3 * 2**30,
        }
        if self.name == "matrix products on JAX":
            return steps * 1e-6
        return steps * (1.0 if self.count > 1 else 10.0)


@pytest.fixture
def fakes(monkeypatch, tmp_path):
    """Return implementations that take a given time, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(comparison, "Implementation", OnGpu)
    monkeypatch.setattr(OnGpu, "failing", {})
    monkeypatch.setattr(OnGpu, "platforms", {})
    return OnGpu


def results(tmp_path):
    return json.loads((tmp_path / "benchmarks" / "results" / "accelerator.json").read_text())


@pytest.mark.parametrize("alone", [False, True])
def test_shares_of_the_peak_and_of_the_products_rate(fakes, tmp_path, capsys, alone):
    accelerator.run(accelerator.Options(models=("base",), batch_sizes=("64",), alone=alone))

    written = results(tmp_path)
    made = written["measurements"][0]
    flops = pretraining_flops(AlbertConfig.preset("base"), 512, 20)
    assert written["values"]["peak_tflops"] == 989.4
    assert written["values"]["interleaved"] is not alone
    assert written["values"]["note"] is None
    assert made["units_per_second"]["median"] == pytest.approx(64)
    assert made["mfu"] == pytest.approx(64 * flops / 989.4e12)
    assert made["lower_bound_share"]["median"] == pytest.approx(64 * flops / (2 * 8192**3 / 1e-6))
    assert made["compile_seconds"] == pytest.approx(9)
    assert made["device"]["peak_memory"] == 3 * 2**30
    assert f"| 64.0 (64.0 to 64.0) | {made['mfu']:.1%} |" in capsys.readouterr().out


def test_what_cannot_run_is_left_out_and_reported(fakes, tmp_path, capsys):
    fakes.failing["albert_tf on JAX"] = "jax.errors...: RESOURCE_EXHAUSTED: 9 GiB\nand more"
    fakes.failing["Hugging Face, compiled"] = "Traceback\nImportError: no torch"
    accelerator.run(accelerator.Options(models=("base",), batch_sizes=("64", "128")))

    written, printed = results(tmp_path), capsys.readouterr().out
    assert [made["batch_size"] for made in written["measurements"]] == [64, 128]
    assert {made["implementation"] for made in written["measurements"]} == {
        accelerator.OURS["fused"]
    }
    assert written["left_out"]["albert_tf on JAX: base, 128 x 512"] == "out of memory"
    assert "ImportError: no torch" in printed

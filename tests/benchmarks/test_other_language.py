import json
import pathlib
import subprocess

from benchmarks import other_language


def test_runs_are_reported_by_step_and_not_run_again(tmp_path, monkeypatch, capsys):
    """Means of seeds; a run that ended early is run again, a finished one is not."""
    trained = []

    def command(words, check):
        flags = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
        if "convert_checkpoint.py" in words:
            pathlib.Path(flags["output"]).mkdir(parents=True)
            return
        trained.append(flags["output_dir"])
        folder, seed = pathlib.Path(flags["output_dir"]), int(flags["random_seed"])
        assert flags.get("init_checkpoint") == (
            None if "random" in folder.name else str(folder.parent / "start")
        )
        assert flags.get("train_only") == ("embeddings:200" if "first" in folder.name else None)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [
            {"step": step, "masked_lm_accuracy": step / 1000 + seed / 10, "bits_per_character": 2}
            for step in (225, 450)
        ]
        (folder / "evaluations.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")

    monkeypatch.setattr(subprocess, "run", command)
    options = other_language.Options("made", str(tmp_path), ("tr",), steps=("225", "450"), seeds=2)
    for runs in (6, 1):
        trained.clear()
        other_language.run(options)
        assert len(trained) == len(set(trained)) == runs
        assert "| tr | 225 | adapted | 27.50 ± 63.53 | 2.00 ± 0.00 |" in capsys.readouterr().out
        (tmp_path / "tr/random-1/done").unlink()
    assert "embeddings first" in (tmp_path / "tr/curves.svg").read_text()

"""Every command leaves the same files however its paths are spelled.

As a program, it runs every command with two spellings of all its paths on one engine, and prints a
line for each: python -m tests.end_to_end.test_path_spellings jax FOLDER gs://bucket
"""

import contextlib
import hashlib
import json
import os
import pathlib
import re
import sys

import pytest

from albert_tf import files
from tests.conftest import JAX_ENVIRONMENT, run_python
from tests.end_to_end.conftest import call
from tests.support.bucket import Bucket

# How the folder of all files is named in a bucket and on a disk, and what follows names of folders:
# plain, and so that each rule of `files.normalized` is needed.
PLAIN = ("work", "work", "")
ODD = ("none/../w \u00e9\u65e5/.", "./link/..//w [lr=3] *k? a#b \u00e9\u65e5", "/")
# What does not depend on names and time.
_COMPARED = re.compile(
    r".*(\.tfrecord|\.sources\.tsv|\.model|\.data-.*|results\.txt|\.safetensors|rows\.jsonl)"
)
_LENGTHS = ("--max_seq_length=32", "--max_predictions_per_seq=5")
_STEPS = ("--train_batch_size=4", "--save_checkpoints_steps=2", "--iterations_per_loop=1")
_CONFIG = {
    **{"vocab_size": 60, "embedding_size": 8, "hidden_size": 8, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "intermediate_size": 8, "max_position_embeddings": 32},
    **{"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
}


def write_inputs(folder: str) -> None:
    words = re.findall(
        r"\w+", "the cat sat on a mat and saw one dog run by two old red cars in town"
    )
    for name in ("books/one.txt", "books/deep/two.txt", "books/.hidden.txt"):
        rows = [" ".join(words[(n * k) % len(words)] for k in range(3, 12)) for n in range(90)]
        files.write_text(f"{folder}/{name}", "\n\n".join(f"{row.capitalize()}." for row in rows))
    rows = [f"{' '.join(words[n % 7 :][:5])}\t{'odd' if n % 2 else 'even'}" for n in range(16)]
    files.write_text(f"{folder}/rows.tsv", "\n".join(["text\tlabel", *rows, ""]))
    files.write_text(f"{folder}/albert_config.json", json.dumps(_CONFIG))


def run_commands(engine: str, at: str, end: str) -> None:
    """Run the commands on files in the folder `at`; `end` follows names of folders."""
    own = f"--engine={engine}"
    corpus = f"--input_file={at}/books{end}", f"--output_file={at}/train.txt"
    held_out = f"--eval_output_file={at}/eval.txt", "--eval_fraction=0.3"
    parts = "--max_document_sentences=5", "--hold_out_parts"
    call("data_prep.extract_corpus", "--format=books", *corpus, *held_out, *parts)
    call(
        "data_prep.train_vocabulary", f"--input_file={at}/train.txt",
        f"--output_prefix={at}/spiece", "--vocab_size=60", "--model_type=wordpiece",
    )  # fmt: skip
    vocabulary = f"--vocab_file={at}/spiece.txt"
    for split in ("train", "eval"):
        call(
            "data_prep.create_pretraining_data", f"--input_file={at}/{split}.txt", vocabulary,
            f"--output_file={at}/{split}.tfrecord", "--dupe_factor=1", *_LENGTHS,
        )  # fmt: skip
    records = f"--input_file={at}/train.tfrecord", f"--eval_input_file={at}/eval.tfrecord"
    train = "--do_train", "--do_eval", "--eval_every_steps=2", f"--output_dir={at}/pre{end}"
    config = f"--albert_config_file={at}/albert_config.json"
    for steps in (2, 6):  # resumed
        call(
            "run_pretraining.py", own, config, *records, *train, *_STEPS, *_LENGTHS,
            f"--num_train_steps={steps}", "--num_warmup_steps=1", "--learning_rate=0.01",
        )  # fmt: skip
    call(
        "run_classifier.py", own, "--task_name=table", "--do_train", "--do_eval", "--do_predict",
        f"--init_checkpoint={at}/pre{end}", f"--output_dir={at}/fine{end}", vocabulary, *_STEPS,
        *(f"--{name}_file={at}/rows.tsv" for name in ("train", "eval", "predict")),
        "--train_step=4", "--warmup_step=1", "--eval_every_steps=2", "--max_seq_length=16",
        f"--cached_dir={at}/cache{end}",
    )  # fmt: skip
    if engine == "jax":
        return  # the other commands choose TensorFlow, and cannot in a process on JAX
    call(
        "convert_checkpoint.py", f"--input={at}/fine{end}", f"--output={at}/hf{end}",
        "--to=huggingface",
    )  # fmt: skip
    call(
        "export_saved_model.py", f"--init_checkpoint={at}/pre/best{end}",
        f"--export_path={at}/export{end}", f"--spm_model_file={at}/spiece.txt",
    )  # fmt: skip
    call(
        "albert_tf.cli.predict", f"--model={at}/fine{end}", f"--input_file={at}/rows.tsv",
        f"--output_file={at}/rows.jsonl",
    )  # fmt: skip


def tree(folder: str) -> dict[str, str]:
    """Return a digest of what can be compared of each file below a folder."""
    found = {}
    for name in files.sizes(folder):
        is_compared = _COMPARED.fullmatch(name)
        digest = hashlib.sha256(files.read_bytes(f"{folder}/{name}")).hexdigest()
        found[re.sub(r"(tfevents|/d/).*", r"\1", name)] = digest if is_compared else ""
    return found


def main(engine: str, folder: str, remote: str) -> None:
    from albert_tf.engines.registry import select_engine
    from albert_tf.engines.startup import load_keras

    select_engine(engine)
    load_keras()
    for name, (in_bucket, on_disk, end) in (("plain", PLAIN), ("odd", ODD)):
        here = pathlib.Path(folder, name)
        (here / "real" / "deep").mkdir(parents=True)
        (here / "link").symlink_to("real/deep")
        os.chdir(here)
        at = f"{remote}/{in_bucket}" if remote else on_disk
        real = files.normalized(at)
        for below in ("", "/books/deep"):
            files.make_folder(f"{real}{below}")
        write_inputs(real)
        with contextlib.redirect_stdout(sys.stderr):
            run_commands(engine, at, end)
        print(json.dumps({"tree": tree(real), "here": sorted(os.listdir("."))}))


ON_DISK = pytest.param("tensorflow", "", marks=pytest.mark.manual)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "remote"), [("jax", "gs://bucket"), ON_DISK])
def test_an_odd_spelling_leaves_the_same_tree(tmp_path, engine, remote):
    with Bucket() as bucket:
        variables = {**JAX_ENVIRONMENT, "KERAS_BACKEND": engine}
        variables |= {"STORAGE_EMULATOR_HOST": bucket.address} if remote else {}
        words = ("-m", "tests.end_to_end.test_path_spellings", engine, tmp_path, remote)
        done = run_python(*words, **variables)
    assert done.returncode == 0, done.stderr
    plain, odd = (json.loads(line) for line in done.stdout.splitlines())
    assert odd["tree"] == plain["tree"]
    assert len(odd["here"]) == 2, "in the bucket, or where a link leads"
    for below in ("pre", "fine"):  # one best checkpoint, which is there
        found = [name for name in plain["tree"] if name.startswith(f"{below}/best/model.ckpt-")]
        assert len(found) > 1


if __name__ == "__main__":
    main(*sys.argv[1:])

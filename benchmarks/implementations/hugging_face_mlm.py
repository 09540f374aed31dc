"""Pretrains Hugging Face's ALBERT as its example `run_mlm` does, on our text and held-out examples.

    python -m benchmarks.implementations.hugging_face_mlm '{"train": ..., "output_dir": ...}'

Every batch gets new masks of single tokens, 15 % of them; AdamW decays its learning rate linearly
to 0. Its order of sentences is not trained, as in the example. Writes `metrics.jsonl` and
`evaluations.jsonl` as run_pretraining.py does.
"""

import json
import pathlib
import sys
import time
from typing import Any

import numpy as np
import torch
import transformers

from albert_tf.input.features import pretraining_features, unmasked_features
from benchmarks.implementations.hugging_face import CONFIG_FIELDS
from data_prep.tfrecords import read_examples

SPECIAL_IDS, MASK_ID = 5, 4  # ids below 5 are <pad>, <unk>, [CLS], [SEP] and [MASK]
LOG_EVERY = 20


def main(
    train: str,
    held_out: str,
    output_dir: str,
    config: dict[str, Any],
    length: int,
    predictions: int,
    batch_size: int,
    learning_rate: float,
    steps: int,
    eval_every: int,
    eval_examples: int,
    seed: int,
    bfloat16: bool,
) -> None:
    torch.manual_seed(seed)
    random = np.random.default_rng(seed)
    texts = read_examples(train, unmasked_features(length))
    ids, mask = texts["input_ids"], texts["input_mask"]
    examples = read_examples(held_out, pretraining_features(length, predictions))
    model = transformers.AlbertForMaskedLM(
        transformers.AlbertConfig(
            **{name: config[name] for name in CONFIG_FIELDS},
            hidden_act="gelu_new",
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 0, steps)
    folder = pathlib.Path(output_dir)
    order: list[int] = []
    start = time.monotonic()
    with open(folder / "metrics.jsonl", "w") as log, open(folder / "evaluations.jsonl", "w") as out:
        for step in range(1, steps + 1):
            if len(order) < batch_size:
                order += random.permutation(len(ids)).tolist()
            rows, order = order[:batch_size], order[batch_size:]
            inputs, labels = masked(ids[rows], mask[rows], config["vocab_size"], random)
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                loss = model(
                    torch.from_numpy(inputs),
                    attention_mask=torch.from_numpy(mask[rows]),
                    labels=torch.from_numpy(labels),
                ).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if step % LOG_EVERY == 0:
                line = {"step": step, "seconds": time.monotonic() - start, "loss": loss.item()}
                log.write(json.dumps(line) + "\n")
                log.flush()
            if step % eval_every == 0 or step == steps:
                count = len(examples["input_ids"]) if step == steps else eval_examples
                line = {"step": step, "masked_lm_accuracy": accuracy(model, examples, count)}
                out.write(json.dumps(line) + "\n")
                out.flush()


def masked(ids: np.ndarray, mask: np.ndarray, vocab_size: int, random: np.random.Generator):
    """Return inputs and labels as of transformers' DataCollatorForLanguageModeling."""
    chosen = (random.random(ids.shape) < 0.15) & (mask > 0) & (ids >= SPECIAL_IDS)
    kind = random.random(ids.shape)
    inputs = np.where(chosen & (kind < 0.8), MASK_ID, ids)
    other = random.integers(0, vocab_size, ids.shape)
    return np.where(chosen & (kind >= 0.9), other, inputs), np.where(chosen, ids, -100)


@torch.no_grad()
def accuracy(model: transformers.AlbertForMaskedLM, examples: dict, count: int) -> float:
    """Return the share of the masked tokens of the first `count` examples that are predicted."""
    right = total = 0.0
    for begin in range(0, count, 64):
        batch = {name: torch.from_numpy(v[begin : begin + 64]) for name, v in examples.items()}
        hidden = model.albert(
            batch["input_ids"],
            attention_mask=batch["input_mask"],
            token_type_ids=batch["segment_ids"],
        ).last_hidden_state
        places = batch["masked_lm_positions"][..., None].expand(-1, -1, hidden.shape[-1])
        found = model.predictions(hidden.gather(1, places)).argmax(-1)
        weights = batch["masked_lm_weights"]
        right += float(((found == batch["masked_lm_ids"]) * weights).sum())
        total += float(weights.sum())
    return right / total


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))

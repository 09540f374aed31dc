"""What benchmarks/finetuning.py measures of Hugging Face; run by it, with the Python of the peers.

Reads lines "train PADDING STEPS" and "predict PADDING 0", PADDING being a length or "longest" (of
the batch), and answers "done".
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

import numpy as np
import torch
import transformers


class Sentences:
    """Token ids and labels of a file, as batches."""

    def __init__(self, path: str):
        arrays = np.load(path)
        ends = np.cumsum(arrays["lengths"])
        self.sequences = np.split(arrays["ids"], ends[:-1])
        self.labels = arrays["arrays/label_ids"]
        self.pad_id = int(arrays["pad_id_and_choices"][0])

    def batch(self, numbers, padding: str) -> dict[str, torch.Tensor]:
        chosen = [self.sequences[number] for number in numbers]
        length = max(map(len, chosen)) if padding == "longest" else int(padding)
        ids = np.full((len(chosen), length), self.pad_id)
        for row, tokens in zip(ids, chosen, strict=True):
            row[: len(tokens)] = tokens
        mask = np.arange(length) < np.array([len(tokens) for tokens in chosen])[:, None]
        labels = self.labels[numbers].astype(np.int64)
        arrays = {"input_ids": ids, "attention_mask": mask.astype(np.int64), "labels": labels}
        return {name: torch.from_numpy(value) for name, value in arrays.items()}


def main(settings: dict) -> None:
    torch.manual_seed(settings["seed"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = transformers.AlbertConfig(
        **settings["config"], hidden_act="gelu_new", classifier_dropout_prob=0.1, num_labels=2
    )
    model = transformers.AlbertForSequenceClassification(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
    train, dev = (Sentences(os.path.join(settings["folder"], f"{s}.npz")) for s in ("train", "dev"))
    size = settings["batch_size"]
    order = np.random.default_rng(settings["seed"])

    def precision():
        if settings["dtype"] == "float32":
            return contextlib.nullcontext()
        return torch.autocast(device, torch.bfloat16)

    def outputs(batch):
        with precision():
            return model(**{name: value.to(device) for name, value in batch.items()})

    def train_some(padding: str, steps: int) -> None:
        model.train()
        for _ in range(steps):
            numbers = order.integers(0, len(train.sequences), size)
            loss = outputs(train.batch(numbers, padding)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        loss.item()

    def predict(padding: str, _: int) -> None:
        model.eval()
        numbers = np.arange(len(dev.sequences))
        with torch.inference_mode():
            for start in range(0, len(numbers), size):
                batch = dev.batch(numbers[start : start + size], padding)
                outputs(batch).logits.float().cpu().numpy()

    work = {"train": train_some, "predict": predict}
    print("ready", flush=True)
    for line in sys.stdin:
        name, padding, steps = line.split()
        work[name](padding, int(steps))
        print("done", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

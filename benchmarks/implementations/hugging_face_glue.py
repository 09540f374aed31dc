"""Fine-tunes Hugging Face's model on a task of GLUE, in a plain loop, for `benchmarks.glue`.

    python -m benchmarks.implementations.hugging_face_glue '{"task_name": "RTE", ...}'

The argument has flags of run_classifier.py, whose batches, schedule, clipping and AdamW these are;
tokens, padding, model and dropout are Hugging Face's. Leaves a model and `eval_results.txt`.
"""

import functools
import json
import sys
from typing import Any

import numpy as np
import torch
import transformers

from albert_tf.files import write_text
from albert_tf.finetuning.metrics import score
from albert_tf.hardware import cpu_precision
from albert_tf.input.examples import TrainingOrder
from albert_tf.tasks.classification.benchmarks import GLUE
from albert_tf.tasks.classification.datasets import read_examples


def main(flags: dict[str, Any]) -> None:
    torch.manual_seed(flags["random_seed"])
    dataset = GLUE[flags["task_name"]].located(flags["data_dir"], ("train", "eval"))
    folder, labels = flags["init_checkpoint"], dataset.labels
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    load = transformers.AutoModelForSequenceClassification.from_pretrained
    model = load(folder, num_labels=len(labels or ["value"]))
    pad = functools.partial(tokenizer.pad, return_tensors="pt")
    bfloat16 = flags["dtype"] == "auto" and cpu_precision()[0] == "bfloat16"
    precision = functools.partial(torch.autocast, "cpu", torch.bfloat16, enabled=bfloat16)

    def read(split: str) -> tuple[list[dict[str, list[int]]], np.ndarray, np.ndarray]:
        """Return the model's inputs of each example, their lengths, and ids of labels or values."""
        examples = read_examples(dataset, dataset.sets[split][0], labeled=True)
        pairs = [each.text_pair for each in examples] if dataset.pairs else None
        texts = [each.text for each in examples]
        columns = tokenizer(texts, pairs, truncation=True, max_length=flags["max_seq_length"])
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        truth = [labels.index(e.likeliest_label) if labels else e.number() for e in examples]
        lengths = np.array([len(row["input_ids"]) for row in rows])
        return rows, lengths, np.array(truth, np.int64 if labels else np.float32)

    rows, lengths, truth = read("train")
    size, epochs = flags["train_batch_size"], flags["num_train_epochs"]
    order = TrainingOrder(lengths, size, flags["random_seed"], flags["window"])
    steps = int(len(rows) / size * epochs)
    warmup = int(steps * flags["warmup_proportion"])
    optimizer = adamw(model, flags["learning_rate"], flags["bias_correction"])
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step / warmup if step < warmup else 1 - step / steps
    )
    model.train()
    for batch in np.concatenate([order.of_epoch(epoch) for epoch in range(epochs)])[:steps]:
        inputs = pad([rows[row] for row in batch])
        with precision():
            loss = model(**inputs, labels=torch.from_numpy(truth[batch])).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.save_pretrained(flags["output_dir"])
    model.eval()
    rows, lengths, truth = read("eval")
    logits = np.zeros((len(rows), model.num_labels), np.float32)
    for batch in np.array_split(np.argsort(-lengths), range(size, len(rows), size)):
        inputs = pad([rows[row] for row in batch])
        with torch.inference_mode(), precision():
            logits[batch] = model(**inputs).logits.float().numpy()
    scores = score(dataset.metrics, truth, logits.argmax(axis=-1) if labels else logits[:, 0])
    lines = "".join(f"{name} = {value}\n" for name, value in scores.items())
    write_text(f"{flags['output_dir']}/eval_results.txt", lines)


def adamw(model: Any, learning_rate: float, bias_correction: bool) -> torch.optim.Optimizer:
    """Return PyTorch's AdamW, which decays neither layer normalization nor biases."""
    groups: dict[float, list[torch.nn.Parameter]] = {0.0: [], 0.01: []}
    for name, parameter in model.named_parameters():
        groups[0.0 if "LayerNorm" in name or name.endswith("bias") else 0.01].append(parameter)
    of_groups = [{"params": group, "weight_decay": decay} for decay, group in groups.items()]
    optimizer = torch.optim.AdamW(of_groups, lr=learning_rate, eps=1e-6, fused=True)
    if not bias_correction:
        for parameter in model.parameters():  # after so many steps, it divides by 1
            moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
            optimizer.state[parameter] = {"step": torch.tensor(1e6), **moments}
    return optimizer


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

"""Loads and evaluates an exported model in a process without this project.

    python -m examples.demo.check_export EXPORT_DIR TFRECORD OUTPUT_JSON

Uses only TensorFlow and SentencePiece, the exported folder and held-out TFRecords. Scores masked
tokens and sentence order through the serving signatures.
"""

import glob
import json
import os
import sys

import numpy as np
import sentencepiece

# Hides what TensorFlow's core prints about missing GPUs while it loads.
_errors = os.dup(2)
with open(os.devnull, "w") as nowhere:
    os.dup2(nowhere.fileno(), 2)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
os.dup2(_errors, 2)

BATCH = 32


def read(path: str) -> dict[str, np.ndarray]:
    """Read all examples of a TFRecord file, stacked by feature."""
    rows: dict[str, list] = {}
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        for name, feature in tf.train.Example.FromString(record).features.feature.items():
            values = feature.int64_list.value or feature.float_list.value
            rows.setdefault(name, []).append(list(values))
    return {name: np.array(values) for name, values in rows.items()}


def predict(model, data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the best tokens `[examples, predictions]` and whether pairs seem swapped."""
    best, swapped = [], []
    for start in range(0, len(data["input_ids"]), BATCH):
        part = {name: values[start : start + BATCH] for name, values in data.items()}
        inputs = {
            "input_word_ids": tf.constant(part["input_ids"], tf.int32),
            "input_mask": tf.constant(part["input_mask"], tf.int32),
            "input_type_ids": tf.constant(part["segment_ids"], tf.int32),
        }
        positions = tf.constant(part["masked_lm_positions"], tf.int32)
        logits = model.signatures["mlm"](**inputs, masked_lm_positions=positions)["mlm_logits"]
        best.append(logits.numpy().argmax(axis=-1))
        orders = model.signatures["sop"](**inputs)["sop_logits"]
        swapped.append(orders.numpy().argmax(axis=-1) == 1)
    return np.concatenate(best), np.concatenate(swapped)


def main(export_dir: str, tfrecord: str, output: str) -> None:
    model = tf.saved_model.load(export_dir)
    (vocabulary_file,) = glob.glob(f"{export_dir}/assets/*.model")
    vocabulary = sentencepiece.SentencePieceProcessor(model_file=vocabulary_file)
    data = read(tfrecord)
    best, swapped = predict(model, data)

    masked = data["masked_lm_weights"] > 0
    truth = data["masked_lm_ids"]
    right = (best == truth) & masked
    ids, counts = np.unique(truth[masked], return_counts=True)
    orders = data["next_sentence_labels"][:, 0] == 1
    orders_right = swapped == orders
    result = {
        "masked_lm_accuracy": float(right.sum() / masked.sum()),
        "masked_tokens": int(masked.sum()),
        "most_frequent_token": vocabulary.id_to_piece(int(ids[counts.argmax()])),
        "most_frequent_token_accuracy": float(counts.max() / masked.sum()),
        "sentence_order_accuracy": float(orders_right.mean()),
        "most_frequent_order_accuracy": float(max(orders.mean(), 1 - orders.mean())),
        "sentence_order_examples": len(orders_right),
    }
    with open(output, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, ensure_ascii=False)
    for name in ("masked_lm_accuracy", "most_frequent_token_accuracy", "sentence_order_accuracy"):
        print(f"{name} = {result[name]:.8g}")


if __name__ == "__main__":
    main(*sys.argv[1:])

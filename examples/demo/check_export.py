"""Loads and evaluates an exported model in a process without this project.

    python -m examples.demo.check_export EXPORT_DIR TFRECORD OUTPUT_JSON

Uses only TensorFlow and SentencePiece, the exported folder and held-out TFRecords. Scores masked
tokens and sentence order through the serving signatures, and saves examples for the report.
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
ORDER_EXAMPLES, MASK_EXAMPLES = 6, 8
CONTEXT = 16  # tokens on both sides of a mask


def read(path: str) -> dict[str, np.ndarray]:
    """Read all examples of a TFRecord file, stacked by feature."""
    rows: dict[str, list] = {}
    for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
        for name, feature in tf.train.Example.FromString(record).features.feature.items():
            values = feature.int64_list.value or feature.float_list.value
            rows.setdefault(name, []).append(list(values))
    return {name: np.array(values) for name, values in rows.items()}


def predict(model, data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the top five tokens `[examples, predictions, 5]` and P(swapped) `[examples]`."""
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
        best.append(tf.math.top_k(logits, 5).indices.numpy())
        orders = model.signatures["sop"](**inputs)["sop_logits"]
        swapped.append(tf.nn.softmax(orders)[:, 1].numpy())
    return np.concatenate(best), np.concatenate(swapped)


def complete(data: dict[str, np.ndarray], row: int) -> np.ndarray:
    """Return the ids of an example before it was masked."""
    ids, weights = data["input_ids"][row].copy(), data["masked_lm_weights"][row] > 0
    ids[data["masked_lm_positions"][row][weights]] = data["masked_lm_ids"][row][weights]
    return ids


def mask_examples(data, best, vocabulary) -> list[dict]:
    """Select masked words, in their context, with the five best predictions of each."""
    examples = []
    for row in range(0, len(best), max(1, len(best) // MASK_EXAMPLES)):
        ids = complete(data, row)
        (changed,) = np.nonzero(ids != data["input_ids"][row])
        for place, guesses in zip(data["masked_lm_positions"][row], best[row], strict=True):
            truth = vocabulary.decode([int(ids[place])])
            # Words of one token, with both neighbors in sight.
            if truth.isalpha() and place in changed and not {place - 1, place + 1} & {*changed}:
                around = ids[max(place - CONTEXT, 0) : place], ids[place + 1 : place + 1 + CONTEXT]
                before, after = (vocabulary.decode(each.tolist()) for each in around)
                guessed = [vocabulary.decode([each]) for each in guesses.tolist()]
                text = f"{before} ____ {after}"
                examples.append({"text": text, "masked": truth, "predicted": guessed})
                break
    return examples[:MASK_EXAMPLES]


def order_examples(data, swapped, vocabulary) -> list[dict]:
    """Select pairs of segments, with the true order and the predicted probability."""
    examples = []
    for row in range(1, len(swapped), max(1, len(swapped) // ORDER_EXAMPLES)):
        ids = complete(data, row)
        mask, segments = data["input_mask"][row] > 0, data["segment_ids"][row]
        examples.append(
            {
                "first": vocabulary.decode(ids[mask & (segments == 0)].tolist()),
                "second": vocabulary.decode(ids[mask & (segments == 1)].tolist()),
                "swapped": bool(data["next_sentence_labels"][row, 0]),
                "probability_swapped": float(swapped[row]),
            }
        )
    return examples[:ORDER_EXAMPLES]


def main(export_dir: str, tfrecord: str, output: str) -> None:
    model = tf.saved_model.load(export_dir)
    (vocabulary_file,) = glob.glob(f"{export_dir}/assets/*.model")
    vocabulary = sentencepiece.SentencePieceProcessor(model_file=vocabulary_file)
    data = read(tfrecord)
    best, swapped = predict(model, data)

    masked = data["masked_lm_weights"] > 0
    truth = data["masked_lm_ids"]
    right = (best[..., 0] == truth) & masked
    ids, counts = np.unique(truth[masked], return_counts=True)
    orders = data["next_sentence_labels"][:, 0] == 1
    orders_right = (swapped > 0.5) == orders
    result = {
        "masked_lm_accuracy": float(right.sum() / masked.sum()),
        "masked_lm_top5_accuracy": float(
            ((best == truth[..., None]).any(axis=-1) & masked).sum() / masked.sum()
        ),
        "masked_tokens": int(masked.sum()),
        "most_frequent_token": vocabulary.id_to_piece(int(ids[counts.argmax()])),
        "most_frequent_token_accuracy": float(counts.max() / masked.sum()),
        "sentence_order_accuracy": float(orders_right.mean()),
        "most_frequent_order_accuracy": float(max(orders.mean(), 1 - orders.mean())),
        "sentence_order_examples": len(orders_right),
        "mask_examples": mask_examples(data, best, vocabulary),
        "order_examples": order_examples(data, swapped, vocabulary),
    }
    with open(output, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, ensure_ascii=False)
    for name in ("masked_lm_accuracy", "most_frequent_token_accuracy", "sentence_order_accuracy"):
        print(f"{name} = {result[name]:.8g}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Uses an export as TF-Hub's text encoders are used, without this package.

python published_usage.py EXPORT_DIR
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.modules["albert_tf"] = None  # importing it raises an error

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
import tensorflow_text  # noqa: E402, F401  registers the operations

TEXTS = tf.constant(["the cat sat", "a dog ran home", "", "Sit, dog!"] * 2)
LABELS = tf.constant([0, 1, 0, 1] * 2)
LENGTH = 12


def three_steps(encode, dense: tf.Variable, variables: list[tf.Variable]) -> None:
    """Train a dense layer on the pooled output, and the encoder with it."""
    losses = []
    for _ in range(3):
        with tf.GradientTape() as tape:
            logits = encode() @ dense
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=logits)
            )
        trained = [*variables, dense]
        gradients = [tf.convert_to_tensor(part) for part in tape.gradient(loss, trained)]
        gradients, _ = tf.clip_by_global_norm(gradients, 1.0)
        for variable, gradient in zip(trained, gradients, strict=True):
            variable.assign_sub(0.01 * gradient)
        losses.append(float(loss))
    assert losses[-1] < losses[0], losses


def with_saved_models(folder: str) -> None:
    preprocess = tf.saved_model.load(f"{folder}/preprocess")
    encoder = tf.saved_model.load(f"{folder}/encoder")
    inputs = preprocess(TEXTS)
    hidden = encoder(inputs)["pooled_output"].shape[1]
    dense = tf.Variable(tf.random.stateless_normal([hidden, 2], [0, 1]))
    before = [variable.numpy() for variable in encoder.trainable_variables]

    @tf.function  # as a layer calls it
    def encode(training):
        return encoder(inputs, training=training)["pooled_output"]

    three_steps(lambda: encode(True), dense, encoder.trainable_variables)
    changed = [
        not np.array_equal(old, new.numpy())
        for old, new in zip(before, encoder.trainable_variables, strict=True)
    ]
    print("tf.saved_model.load:", sum(changed), "of", len(changed), "variables trained")
    assert sum(changed) >= len(changed) - 1 > 10, "only the gradient of key biases is zero"

    tokens = [preprocess.tokenize(TEXTS), preprocess.tokenize(TEXTS[::-1])]
    packed = preprocess.bert_pack_inputs(tokens, seq_length=LENGTH)
    assert packed["input_word_ids"].shape == (8, LENGTH)
    assert set(packed["input_type_ids"].numpy().flat) == {0, 1}
    special = preprocess.tokenize.get_special_tokens_dict()
    assert (packed["input_word_ids"][:, 0] == special["start_of_sequence_id"]).numpy().all()

    found = encoder.mlm({**packed, "masked_lm_positions": tf.ones([8, 3], tf.int32)})
    assert found["mlm_logits"].shape[:2] == (8, 3)
    assert len(encoder.mlm.trainable_variables) > len(encoder.trainable_variables)


def with_keras(folder: str) -> None:
    """Return a Keras model on strings, whose head is trained."""
    preprocess, encoder = (
        keras.layers.TFSMLayer(f"{folder}/{name}", call_endpoint="__call__", trainable=False)
        for name in ("preprocess", "encoder")
    )
    text = keras.Input(shape=(), dtype="string")
    pooled = encoder(preprocess(text))["pooled_output"]
    model = keras.Model(text, keras.layers.Dense(2)(pooled))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # With all texts in a batch, gradient descent lowers the loss of a linear head at every step.
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss)
    losses = model.fit(TEXTS, LABELS, batch_size=8, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0], losses
    print("keras.layers.TFSMLayer: loss", losses[0], "to", losses[-1])


if __name__ == "__main__":
    with_saved_models(sys.argv[1])
    with_keras(sys.argv[1])

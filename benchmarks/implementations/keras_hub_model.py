"""KerasHub's ALBERT on TensorFlow, trained as `fit` does, in a function of its own."""

import keras
import keras_hub
import tensorflow as tf

from benchmarks.implementations.workload import Workload


def prepare(workload: Workload):
    """Return a function that runs a number of steps."""
    keras.utils.set_random_seed(0)
    if workload.dtype == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    shape = workload.config
    backbone = keras_hub.models.AlbertBackbone(
        vocabulary_size=shape["vocab_size"],
        num_layers=shape["num_hidden_layers"],
        num_heads=shape["num_attention_heads"],
        embedding_dim=shape["embedding_size"],
        hidden_dim=shape["hidden_size"],
        intermediate_dim=shape["intermediate_size"],
        num_groups=shape["num_hidden_groups"],
        max_sequence_length=shape["max_position_embeddings"],
    )
    batch = workload.batch()
    inputs = {
        "token_ids": batch["input_ids"],
        "segment_ids": batch["segment_ids"],
        "padding_mask": batch["input_mask"],
    }
    encoded = backbone(backbone.input)
    logits = keras.layers.Dense(2, dtype="float32")(encoded["pooled_output"])
    if workload.task == "pretraining":
        positions = keras.Input((workload.predictions,), dtype="int32", name="positions")
        words = keras_hub.layers.MaskedLMHead(
            token_embedding=backbone.token_embedding,
            intermediate_activation=lambda x: keras.activations.gelu(x, approximate=True),
        )(encoded["sequence_output"], positions)
        model = keras.Model({**backbone.input, "positions": positions}, [words, logits])
        inputs["positions"] = batch["masked_lm_positions"]
    else:
        model = keras.Model(backbone.input, logits)
    # All that is input is int32 in the batch, as functional models want it.
    inputs = {name: tf.constant(array) for name, array in inputs.items()}
    if workload.task == "inference":
        predict = tf.function(lambda: model(inputs, training=False))

        def infer(count: int) -> None:
            for _ in range(count):
                predict().numpy()

        return infer
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, global_clipnorm=1.0)
    optimizer.build(model.trainable_variables)

    def cross_entropy(labels, logits):
        logits = keras.ops.cast(logits, "float32")
        losses = keras.losses.sparse_categorical_crossentropy(labels, logits, from_logits=True)
        return keras.ops.mean(losses)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            outputs = model(inputs, training=True)
            if workload.task == "pretraining":
                loss = cross_entropy(batch["masked_lm_ids"], outputs[0])
                loss += cross_entropy(batch["next_sentence_labels"][:, 0], outputs[1])
            else:
                loss = cross_entropy(batch["label_ids"], outputs)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    def train(count: int) -> None:
        for _ in range(count):
            loss = step()
        loss.numpy()

    return train

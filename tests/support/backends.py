"""What each Keras backend does in its own way, so that one test runs on TensorFlow and on JAX.

TensorFlow computes op by op, which for the models of tests is fastest. JAX would compile every
operation by itself that way, so there each function is compiled as a whole.
"""

import contextlib
import functools
from collections.abc import Callable

import keras
from keras import ops

from albert_tf.modeling.model import model_features

BACKEND = keras.backend.backend()


def as_numpy(tree):
    """`tree` with NumPy arrays for its tensors."""
    return keras.tree.map_structure(ops.convert_to_numpy, tree)


def variable(path: str, value) -> keras.Variable:
    """Return a variable whose path is `path`, such as "bert/pooler/dense/kernel"."""
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(value, name=name)


def _values(variables):
    return [each.value for each in variables]


@functools.lru_cache(maxsize=1)
def _compiled(model: keras.Model, **options) -> Callable:
    """Return the forward pass of a model as a function of its values; kept for the next call."""
    import jax

    @jax.jit
    def run(weights, others, features):
        return model.stateless_call(weights, others, features, training=False, **options)[0]

    return run


def forward(model: keras.Model, features, **options) -> dict:
    """Return the outputs of a model without dropout, called with `options`, as NumPy arrays."""
    if BACKEND == "tensorflow":
        return as_numpy(model(features, **options))
    weights, others = model.trainable_variables, model.non_trainable_variables
    return as_numpy(_compiled(model, **options)(_values(weights), _values(others), features))


def gradient_function(
    model: keras.Model, loss: Callable, training: bool = False, **options
) -> Callable:
    """Return the gradient of a loss of the model.

    Args:
        model: its trainable variables are what is differentiated by.
        loss: of the model's outputs and a batch; returns the loss and any other tensors.
        training: whether dropout is applied.
        **options: other arguments of the model's call.

    Returns:
        A function of a batch that returns those other tensors and the gradients, dense and in the
        order of the variables.
    """
    if BACKEND == "tensorflow":
        import tensorflow as tf

        def differentiate(batch):
            with tf.GradientTape() as tape:
                features = model_features(model, batch)
                outputs = model(features, training=training, **options)
                value, others = loss(outputs, batch)
            gradients = tape.gradient(
                value, _values(model.trainable_variables), unconnected_gradients="zero"
            )
            return others, [tf.convert_to_tensor(gradient) for gradient in gradients]

        return differentiate
    import jax

    @jax.jit
    def run(weights, constants, batch):
        def loss_of(weights):
            features = model_features(model, batch)
            outputs, _ = model.stateless_call(
                weights, constants, features, training=training, **options
            )
            return loss(outputs, batch)

        (_, others), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
        return others, gradients

    def differentiate(batch):
        constants = _values(model.non_trainable_variables)
        return run(_values(model.trainable_variables), constants, batch)

    return differentiate


def compiled(function: Callable) -> Callable:
    """Return the function, for many calls with the same shapes."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        return tf.function(function, autograph=False)
    return function  # those that this module returns are compiled


def operations(function: Callable, *args) -> list[str]:
    """Return names of the operations in the program that `function` is traced into."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        graph = tf.function(function, autograph=False).get_concrete_function(*args).graph
        return [operation.type for operation in graph.get_operations()]
    import jax

    def names(jaxpr):
        for equation in jaxpr.eqns:
            yield equation.primitive.name
            for parameter in equation.params.values():
                inner = getattr(parameter, "jaxpr", parameter)
                if hasattr(inner, "eqns"):
                    yield from names(inner)

    return list(names(jax.make_jaxpr(function)(*args).jaxpr))


def update_function(optimizer: keras.optimizers.Optimizer, variables) -> Callable:
    """Return a function of gradients that applies them to `variables`."""
    optimizer.build(variables)
    if BACKEND == "tensorflow":
        return lambda gradients: optimizer.apply(gradients, variables)
    import jax

    apply = jax.jit(optimizer.stateless_apply)

    def update(gradients):
        changed = (variables, optimizer.variables)
        results = apply(_values(optimizer.variables), gradients, _values(variables))
        for group, values in zip(changed, results, strict=True):
            for each, value in zip(group, values, strict=True):
                each.assign(value)

    return update

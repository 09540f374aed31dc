"""Registers the classes of this package with Keras, so that files that contain them can be loaded.

`keras.models.load_model` finds classes of other packages only if they are registered, which they
are once their module is imported. `import albert_tf` must not import Keras, and thus not those
modules: they follow as soon as Keras is imported, before or after this package.
"""

import importlib.abc
import sys

# Importing these imports all registered classes.
MODULES = (
    "albert_tf.modeling",
    "albert_tf.optimization.optimizers",
    "albert_tf.optimization.schedules",
    "albert_tf.text_models.preprocessor",
)


def register_with_keras() -> None:
    """Import the classes, now if Keras is loaded, else at the end of `import keras`."""
    if "keras" in sys.modules:
        _import_modules()
    else:
        sys.meta_path.insert(0, _KerasFinder())


def _import_modules() -> None:
    for name in MODULES:
        # One that is being imported, and imports Keras itself, is complete soon.
        if name not in sys.modules:
            importlib.import_module(name)


class _KerasFinder(importlib.abc.MetaPathFinder):
    """Finds Keras as all other finders do, and adds to what its import executes."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "keras":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        # Keras may also be looked for without being imported, as TensorFlow does.
        def execute_and_register(module) -> None:
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]
            execute(module)
            _import_modules()

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec

"""What scikit-learn expects of estimators: pipelines, cross-validation, searches of parameters.

A base class of that library, which is slow to load, is not needed, only these methods.
"""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import value_of
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.text_models.fitting import FitArguments
from albert_tf.text_models.task_model import TaskModel

# Parameters of `from_preset`, besides the settings of the class, and of `fit`.
_OF_PRESET = ("name", "labels", "target", "seed", "vocabulary", "do_lower_case", "dtype")
_OF_FIT = tuple(f.name for f in dataclasses.fields(FitArguments) if f.name not in _OF_PRESET)


class Estimator(TaskModel[ClassificationTask]):
    """A text model with the parameters and the description of an estimator of scikit-learn."""

    # What is predicted: a key of `TARGETS`.
    _kind: str = "classification"

    # The arguments that `from_preset` was given; those of `fit` are its defaults.
    _parameters: Mapping[str, Any] = {}

    @classmethod
    def from_preset(cls, name: str | os.PathLike[str], *args: Any, **arguments: Any) -> Self:
        of_preset = {key: value for key, value in arguments.items() if key not in _OF_FIT}
        FitArguments.checked({key: arguments[key] for key in arguments.keys() - of_preset.keys()})
        model = super().from_preset(name, *args, **of_preset)
        labels = dict(zip(("labels",), args, strict=False))
        model._parameters = {"name": name, **labels, **arguments}
        return model

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of `from_preset` by name, None for those that were not given."""
        return {**dict.fromkeys((*_OF_PRESET, *self.settings, *_OF_FIT)), **self._parameters}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of `from_preset`; None stands for the default.

        Unless they are only defaults of `fit`, the model starts again from the weights.

        Raises:
            InputError: If there is no such argument, or a value is invalid.
        """
        known = self.get_params()
        if unknown := params.keys() - known.keys():
            raise InputError(f"`{min(unknown)}`: must be one of {', '.join(known)}")
        given = {name: value for name, value in {**known, **params}.items() if value is not None}
        created = type(self).from_preset(**given)
        if params.keys() - set(_OF_FIT):
            vars(self).clear()
            vars(self).update(vars(created))
        self._parameters = given
        return self

    def _with_defaults(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of `fit` with those of `from_preset` as defaults."""
        defaults = {name: self._parameters[name] for name in _OF_FIT if name in self._parameters}
        return {**defaults, **arguments}

    @property
    def classes_(self) -> np.ndarray:
        """The labels in the order of the probabilities; there are none before training."""
        if self.task is None or not self.task.target.labels:
            raise AttributeError("classes_: the labels are not known, or the model has none")
        labels = list(map(value_of, self.task.target.labels))
        return np.array(labels, None if len(set(map(type, labels))) == 1 else object)

    def __sklearn_clone__(self) -> Self:
        return type(self).from_preset(**self._parameters)

    def __sklearn_is_fitted__(self) -> bool:
        return self.task is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn import base  # slow to load, and loaded where this is called

        mixin = base.RegressorMixin if self._kind == "regression" else base.ClassifierMixin
        return type("_Described", (mixin, base.BaseEstimator), {})().__sklearn_tags__()

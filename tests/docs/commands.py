"""Commands in pages and recipes: their words, and the options that they come to."""

import importlib
import re
import shlex

from absl import flags

from albert_tf.configs import with_recipe_paths
from albert_tf.options import define_flags, from_flags
from albert_tf.tasks import classification, multiple_choice, question_answering, tagging

_KINDS = {
    "run_classifier.py": classification.KIND,
    "run_squad.py": question_answering.KIND,
    "run_race.py": multiple_choice.KIND,
    "run_tagger.py": tagging.KIND,
}
_OPTIONS = {
    "run_pretraining.py": "albert_tf.training.options.PretrainingOptions",
    "data_prep.extract_corpus": "data_prep.extraction_options.ExtractionOptions",
    "data_prep.train_vocabulary": "data_prep.train_vocabulary.VocabularyOptions",
    "data_prep.create_pretraining_data": (
        "data_prep.pretraining_data_options.PretrainingDataOptions"
    ),
    "data_prep.inspect": "data_prep.inspect.__main__.InspectOptions",
}


def commands(text: str) -> list[list[str]]:
    """Return the words of the commands in a text, without "python" and "-m"."""
    lines = re.sub(r" *\\\n *", " ", text).splitlines()
    whole = [line.strip() for line in lines if not line.endswith("...")]
    words = [shlex.split(line) for line in whole if line.startswith("python ")]
    return [line[2:] if line[1] == "-m" else line[1:] for line in words]


def commands_of_recipe(path) -> list[list[str]]:
    """Return the words of the commands in a recipe's comment."""
    lines = [line.removeprefix("#") for line in path.read_text().splitlines() if line[:1] == "#"]
    joined = re.sub(r" *\\\n *", " ", "\n".join(lines))
    return commands("\n".join(line for line in joined.splitlines() if line.startswith("   ")))


def options_of(words: list[str]):
    """Return what the flags of a command come to."""
    if words[0] in _KINDS:
        options_class = _KINDS[words[0]].load("options")
    else:
        module, _, name = _OPTIONS[words[0]].rpartition(".")
        options_class = getattr(importlib.import_module(module), name)
    values = flags.FlagValues()
    define_flags(options_class, values)
    assert values(with_recipe_paths(words)) == words[:1]
    return from_flags(options_class, values)

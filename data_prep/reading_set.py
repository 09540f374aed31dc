"""Examples of the passages of SQuAD and RACE, made in the way of a model's training data.

Section 4.2.1 of the ALBERT paper follows pretraining on such a set: the passages of the development
sets, made into examples by the procedure of section 4.1.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sys
from typing import TYPE_CHECKING, Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.manifest import manifest_file, read_manifest
from data_prep import create_pretraining_data, extract_corpus, pipeline
from data_prep.extraction import extract
from data_prep.plan import VERSION
from data_prep.sources import find_inputs, fingerprint, parse_sources

if TYPE_CHECKING:
    from albert_tf.training.options import PretrainingOptions

_TEXT, _RECORDS = "passages.txt", "examples.tfrecord"
_VOCABULARIES = ("spm_model_file", "vocab_file")

# Flags of `create_pretraining_data` that decide how text becomes examples. The manifests of the
# training data say what they are, and flags of training where there are some of these names.
_SETTINGS = (
    "max_seq_length",
    "max_predictions_per_seq",
    "do_lower_case",
    "do_whole_word_mask",
    "masked_lm_prob",
    "ngram",
    "favor_shorter_ngram",
    "do_permutation",
    "short_seq_prob",
    "one_segment_chunks",
    "pair_objective",
)


def make_reading_set(options: PretrainingOptions, manifests: dict[str, dict[str, Any]]) -> str:
    """Makes the examples of `--eval_reading_set` in a folder of `--output_dir`.

    They have masks, every passage is used once, and no seed of training changes them. The name of
    the folder has a hash of input and settings; one that is there already is used as it is.

    Args:
        options: the flags.
        manifests: of the training data, by name. What neither they nor the flags say is the default
            of `create_pretraining_data` and `extract_corpus`.

    Returns:
        The TFRecord file, which has its manifest beside it.

    Raises:
        InputError: the vocabulary or the text is missing or not what it should be, or a flag
            contradicts a manifest.
    """
    text = extract_corpus.Options(
        output_file=_TEXT,
        format="reading_sets",
        input_file=options.eval_reading_set,
        **_language(options, manifests),
    )
    extract_corpus.check(text)
    examples = create_pretraining_data.Options(
        input_file=(_TEXT,),
        output_file=(_RECORDS,),
        dupe_factor=1,
        **_vocabulary(options, manifests),
        **_settings(options, manifests),
    )
    create_pretraining_data.check(examples)
    folder = f"{options.output_dir}/reading_set-{_digest(text, examples)}"
    records = f"{folder}/{_RECORDS}"
    manifest = _finished(records)
    if manifest is None:
        try:
            _make(folder, text, examples)
        except OSError:
            if _finished(records) is None:
                raise
            # Another process was at the same work, and ready before this one.
        manifest = _finished(records)
    print(
        f"{records}: {manifest['examples']:,} examples of the {manifest['documents']:,} passages "
        f"in {', '.join(options.eval_reading_set)}"
    )
    return records


def _settings(options: PretrainingOptions, manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name in _SETTINGS:
        said = {
            source: manifest["settings"][name]
            for source, manifest in manifests.items()
            if manifest["settings"].get(name) is not None
        }
        if name == "max_predictions_per_seq":  # where training draws the masks it is up to its flag
            for source, manifest in manifests.items():
                if manifest["settings"].get("masking") == "dynamic":
                    said.pop(source, None)
        settings |= _agreed(options, name, said)
    return settings


def _language(options: PretrainingOptions, manifests: dict[str, dict[str, Any]]) -> dict[str, str]:
    said = {
        corpus["settings"]["language"]
        for manifest in manifests.values()
        for corpus in manifest.get("corpora", {}).values()
    }
    if options.language or not said:
        return {"language": options.language} if options.language else {}
    if len(said) > 1:
        raise InputError(
            f"--language: the training data is of several, {', '.join(sorted(said))}; say which is "
            "that of --eval_reading_set"
        )
    return {"language": said.pop()}


def _agreed(options: PretrainingOptions, name: str, said: dict[str, Any]) -> dict[str, Any]:
    """A setting on which the flag of its name and all manifests agree; {} where none says it.

    Raises:
        InputError: they do not.
    """
    flag = getattr(options, name, None)
    for source, value in said.items():
        if flag is not None and value != flag:
            raise InputError(f"--{name}={flag}: the training data was made with {value} ({source})")
        first = next(iter(said))
        if value != said[first]:
            raise InputError(
                f"--eval_reading_set: {name} is {said[first]} in {first}, but {value} in {source}; "
                "make the examples with data_prep.create_pretraining_data and name them with "
                "--eval_input_file"
            )
    value = next(iter(said.values()), flag)
    return {} if value is None else {name: value}


def _vocabulary(options: PretrainingOptions, manifests: dict[str, dict[str, Any]]) -> dict:
    """The flag of the vocabulary, from the command line or else from a manifest.

    Raises:
        InputError: there is none, or it is not that of the training data.
    """
    given = (vars(options), *(manifest["settings"] for manifest in manifests.values()))
    found = [(name, said[name]) for said in given for name in _VOCABULARIES if said.get(name)]
    if not found:
        raise InputError(
            "--spm_model_file: no manifest of the training data names the vocabulary; give the "
            ".model file, or a WordPiece vocab.txt with --vocab_file"
        )
    name, path = found[0]
    if not files.exists(path):
        raise InputError(f"--{name}: the vocabulary {path} is not there; say where it is")
    for source, manifest in manifests.items():
        if files.sha256_of(path) != manifest["vocabulary"]["sha256"]:
            raise InputError(f"--{name}={path}: not the vocabulary of the training data ({source})")
    return {name: path}


def _digest(text: extract_corpus.Options, examples: create_pretraining_data.Options) -> str:
    """A hash that differs where the examples might."""
    made_from = dataclasses.asdict(examples)
    paths = [made_from.pop(name) for name in _VOCABULARIES]
    made_from |= {
        "version": VERSION,
        "text": fingerprint(text, find_inputs(parse_sources(text), "eval_reading_set")),
        "vocabulary": [files.sha256_of(path) for path in paths if path],
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:8]


def _finished(records: str) -> dict[str, Any] | None:
    """The manifest of examples that are there and still what they were."""
    path = manifest_file(records)
    if not (files.exists(path) and files.exists(records)):
        return None
    manifest = read_manifest(path)
    return manifest if files.sha256_of(records) == manifest["sha256"][_RECORDS] else None


def _make(
    folder: str, text: extract_corpus.Options, examples: create_pretraining_data.Options
) -> None:
    """Makes the folder, whole or not at all."""
    if files.exists(folder):
        print(f"warning: {folder} is damaged and made anew", file=sys.stderr)
        files.remove(folder)
    with files.replacing(folder) as partial:
        try:
            extract(dataclasses.replace(text, output_file=f"{partial}/{_TEXT}"))
            pipeline.create_pretraining_data(
                dataclasses.replace(
                    examples,
                    input_file=(f"{partial}/{_TEXT}",),
                    output_file=(f"{partial}/{_RECORDS}",),
                )
            )
        except InputError as error:
            raise InputError(str(error).replace("--input_file:", "--eval_reading_set:")) from None
        # What they say of their own places is to be true when the folder has its name.
        for path in files.matches(f"{partial}/*.json"):
            files.write_text(path, files.read_text(path).replace(partial, folder))

"""Examples from the passages of SQuAD and RACE, created like the training data of a model.

Section 4.2.1 of the ALBERT paper monitors pretraining on such a set: the passages of the
development sets, turned into examples by the procedure of section 4.1.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from albert_tf import files
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.input.manifest import manifest_file, read_manifest
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import CONFIG_FILE, Normalization
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from data_prep.languages import resolve_language
from data_prep.plan import VERSION
from data_prep.pretraining_data import create_pretraining_data
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.sources import find_inputs, fingerprint, parse_sources

logger = logging.getLogger(__name__)

Manifests = Mapping[str, dict[str, Any]]

_TEXT, _RECORDS = "passages.txt", "examples.tfrecord"
_VOCABULARIES = ("spm_model_file", "vocab_file")

# Options of `create_pretraining_data` that affect how text becomes examples. The manifests of the
# training data record them, and some are also options of training, under the same names.
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
    "packing",
    "pair_objective",
)


class ReadingSetOptions(Protocol):
    """The options of training that a reading set depends on, besides those in `_SETTINGS`."""

    @property
    def eval_reading_set(self) -> tuple[str, ...]: ...

    @property
    def output_dir(self) -> str: ...

    @property
    def language(self) -> str | None: ...

    @property
    def spm_model_file(self) -> str | None: ...

    @property
    def vocab_file(self) -> str | None: ...


def make_reading_set(options: ReadingSetOptions, manifests: Manifests) -> str:
    """Create the examples of `eval_reading_set` in a folder of `output_dir`.

    The examples have static masks, every passage is used once, and they do not depend on the seed
    of training. The name of the folder contains a hash of input and settings; an existing folder
    is used as it is.

    Args:
        options: the options of training.
        manifests: the manifests of the training data, by path. Settings that neither they nor the
            options specify have the defaults of `create_pretraining_data` and `extract_corpus`.

    Returns:
        Path of the TFRecord file, which has its manifest next to it.

    Raises:
        InputError: If the vocabulary or the text is missing or invalid, or if an option
            contradicts a manifest.
    """
    text_options = ExtractionOptions(
        output_file=_TEXT,
        format="reading_sets",
        input_file=options.eval_reading_set,
        **_language(options, manifests),
    )
    text_options.check()
    resolve_language(text_options.language)
    example_options = PretrainingDataOptions(
        input_file=(_TEXT,),
        output_file=(_RECORDS,),
        dupe_factor=1,
        **_vocabulary(options, manifests),
        **_settings(options, manifests),
    )
    example_options.check()
    folder = f"{options.output_dir}/reading_set-{_digest(text_options, example_options)}"
    records = f"{folder}/{_RECORDS}"
    manifest = _intact_manifest(records)
    if manifest is None:
        try:
            _create(folder, text_options, example_options)
        except OSError:
            # Another process may have created the same folder in the meantime.
            if _intact_manifest(records) is None:
                raise
        manifest = read_manifest(manifest_file(records))
    logger.info(
        "%s: %s examples from the %s passages in %s",
        records,
        f"{manifest.get('examples', 0):,}",
        f"{manifest.get('documents', 0):,}",
        ", ".join(options.eval_reading_set),
    )
    return records


def _settings(options: ReadingSetOptions, manifests: Manifests) -> dict[str, Any]:
    """Return the `_SETTINGS` that the options or the manifests specify."""
    settings: dict[str, Any] = {}
    for name in _SETTINGS:
        recorded = {
            path: manifest["settings"][name]
            for path, manifest in manifests.items()
            if manifest["settings"].get(name) is not None
        }
        if name == "max_predictions_per_seq":  # with dynamic masking, the option decides
            for path, manifest in manifests.items():
                if manifest["settings"].get("masking") == "dynamic":
                    recorded.pop(path, None)
        settings |= _agreed(options, name, recorded)
    return settings


def _language(options: ReadingSetOptions, manifests: Manifests) -> dict[str, Any]:
    recorded = {
        corpus["settings"]["language"]
        for manifest in manifests.values()
        for corpus in manifest.get("corpora", {}).values()
    }
    if options.language or not recorded:
        return {"language": options.language} if options.language else {}
    if len(recorded) > 1:
        raise InputError(
            f"`language`: the training data is in several, {', '.join(sorted(recorded))}; specify "
            "that of `eval_reading_set`"
        )
    return {"language": recorded.pop()}


def _agreed(options: ReadingSetOptions, name: str, recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the value of a setting; {} if neither the option of its name nor a manifest has one.

    Args:
        options: the options of training.
        name: name of the setting.
        recorded: values in the manifests, by path.

    Raises:
        InputError: If the values differ.
    """
    given = getattr(options, name, None)
    for path, value in recorded.items():
        if given is not None and value != given:
            raise InputError(
                f"`{name}`={given}: the training data was created with {value} ({path})"
            )
        first = next(iter(recorded))
        if value != recorded[first]:
            raise InputError(
                f"`eval_reading_set`: {name} is {recorded[first]} in {first}, but {value} in "
                f"{path}; create the examples with data_prep.create_pretraining_data and name "
                "them with `eval_input_file`"
            )
    value = next(iter(recorded.values()), given)
    return {} if value is None else {name: value}


def _vocabulary(options: ReadingSetOptions, manifests: Manifests) -> dict[str, Any]:
    """Return the option that names the vocabulary, as given or else from a manifest.

    Raises:
        InputError: If there is none, or it is not the vocabulary of the training data.
    """
    candidates: Iterable[Mapping[str, Any]] = (
        {name: getattr(options, name) for name in _VOCABULARIES},
        *(manifest["settings"] for manifest in manifests.values()),
    )
    found = [
        (name, candidate[name])
        for candidate in candidates
        for name in _VOCABULARIES
        if candidate.get(name)
    ]
    if not found:
        raise InputError(
            "`spm_model_file`: no manifest of the training data names the vocabulary; name the "
            ".model file, or a WordPiece vocab.txt with `vocab_file`"
        )
    name, path = found[0]
    if not files.exists(path):
        raise InputError(f"`{name}`={path}: the file of the vocabulary does not exist")
    for manifest_path, manifest in manifests.items():
        if files.sha256_of(path) != manifest["vocabulary"]["sha256"]:
            raise InputError(
                f"`{name}`={path}: not the vocabulary of the training data ({manifest_path})"
            )
        recorded = manifest["vocabulary"].get("normalization")
        tokenizer = Tokenizer.load(path, manifest["settings"].get("do_lower_case"))
        if recorded and tokenizer.normalization != Normalization(**recorded):
            raise InputError(
                f"`{name}`={path}: the {CONFIG_FILE} next to it is not that of the training data, "
                f"which records {json.dumps(recorded)} ({manifest_path})"
            )
    return {name: path}


def _digest(text_options: ExtractionOptions, example_options: PretrainingDataOptions) -> str:
    made_from = dataclasses.asdict(example_options)
    paths = [made_from.pop(name) for name in _VOCABULARIES]
    inputs = find_inputs(parse_sources(text_options), "eval_reading_set")
    made_from |= {
        "version": VERSION,
        "text": fingerprint(text_options, inputs),
        "vocabulary": [files.sha256_of(path) for path in paths if path],
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:8]


def _intact_manifest(records: str) -> dict[str, Any] | None:
    """Return the manifest of a TFRecord file, if both exist and the file is unchanged."""
    path = manifest_file(records)
    if not (files.exists(path) and files.exists(records)):
        return None
    manifest = read_manifest(path)
    recorded = manifest.get("sha256", {}).get(_RECORDS)
    return manifest if files.sha256_of(records) == recorded else None


def _create(
    folder: str, text_options: ExtractionOptions, example_options: PretrainingDataOptions
) -> None:
    """Create the folder; it appears complete or not at all."""
    if files.exists(folder):
        logger.warning("%s is damaged; creating it again", folder)
        files.remove(folder)
    with files.replacing(folder) as partial:
        with arguments_renamed(input_file="eval_reading_set"):
            extract(dataclasses.replace(text_options, output_file=f"{partial}/{_TEXT}"))
            create_pretraining_data(
                dataclasses.replace(
                    example_options,
                    input_file=(f"{partial}/{_TEXT}",),
                    output_file=(f"{partial}/{_RECORDS}",),
                )
            )
        # The paths that the files contain must be valid when the folder has its final name.
        for path in files.matches(f"{partial}/*.json"):
            files.write_text(path, files.read_text(path).replace(partial, folder))

"""The two halves of data preparation, as pure functions of their input and the options.

units of text -> tokens -> pairs, sorted into runs  |  buckets -> shuffled, masked features
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.input.features import most_examples
from albert_tf.input.masking import Masking, Masks, derive_seeds, draw_masks
from albert_tf.input.rows import Places
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.unknown import UnknownCharacters, texts_at
from data_prep.assembling import Examples, assemble
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.row_plan import plan_rows
from data_prep.runs import Bucket, Run, make_run, merge, token_dtype
from data_prep.segments import (
    Pairing,
    TokenizedDocuments,
    example_lengths,
    exchange_seconds,
    make_pairs,
)
from data_prep.text_units import TextDocument, TextUnit, read_unit
from data_prep.word_segments import continuing_tokens, load_segmenter

# Characters tokenized at once, and tokens collected before they become a run.
_CHARACTERS_AT_ONCE = 1_000_000
_TOKENS_AT_ONCE = 8_000_000
_EXAMPLES_AT_ONCE = 1024
# Examples among which those of a row are chosen.
_EXAMPLES_PACKED_AT_ONCE = 4096
# Unknown tokens, of those that are encoded at once, whose texts are searched for characters.
_MOST_UNKNOWN = 100
# What precedes an unknown character in the counts of a unit.
UNKNOWN_CHARACTER = "unknown_character_"


class ExampleMaker:
    """Turns text into runs, and buckets into examples.

    Args:
        buckets: number of buckets that the examples are shuffled in.

    Attributes:
        pairing: the options that concern segments.
        masks: how masks are drawn.
        word_starts: bool, which tokens start a word. Where a segmenter finds the words, a token
            that continues one is its id plus the size of the vocabulary until examples are
            built.
        token_dtype: dtype of tokens until then.
    """

    def __init__(self, options: PretrainingDataOptions, buckets: int):
        self.tokenizer = tokenizer = load_tokenizer(options)
        self.pairing = Pairing(
            options.max_seq_length,
            options.objective,
            options.short_seq_prob,
            options.one_segment_chunks,
            options.packing,
            options.pack_rows,
        )
        special_ids = (tokenizer.cls_id, tokenizer.sep_id)
        self.masks = Masks(
            masking_of(options), special_ids, tokenizer.mask_id, tokenizer.replacement_ids
        )
        self._options, self._buckets = options, buckets
        self._unknown = UnknownCharacters(tokenizer)
        self._segmenter = None
        self.word_starts = tokenizer.word_starts
        if options.word_segmenter:
            self._segmenter = load_segmenter(options.word_segmenter)
            self.word_starts = np.append(self.word_starts, np.zeros_like(self.word_starts))
        self.token_dtype = token_dtype(len(self.word_starts))

    def runs_of(self, unit: TextUnit, counts: Counter[str]) -> Iterator[Run]:
        """Tokenize and cut the documents of a unit; usually yields a single run.

        Args:
            counts: updated with the numbers of documents, sentences, tokens, unknown tokens and
                examples.
        """
        documents: list[TextDocument] = []
        encoded: list[tuple[np.ndarray, np.ndarray]] = []
        characters = tokens = 0
        encoded_documents = 0

        def encode() -> int:
            texts = [text for new in documents[encoded_documents:] for text in new.sentences]
            ids, lengths = self.tokenizer.encode_flat(texts)
            self._count_unknown(texts, ids, lengths, counts)
            if self._segmenter:
                continues = continuing_tokens(self.tokenizer, texts, lengths, self._segmenter)
                ids = ids + continues * np.int32(self.tokenizer.vocab_size)
            encoded.append((ids, lengths))
            return len(ids)

        for document in read_unit(unit, counts, self._options.document_sentences):
            documents.append(document)
            characters += sum(map(len, document.sentences))
            if characters >= _CHARACTERS_AT_ONCE:
                tokens += encode()
                characters, encoded_documents = 0, len(documents)
                if tokens >= _TOKENS_AT_ONCE:
                    yield self._run(documents, encoded, counts)
                    documents, encoded, tokens, encoded_documents = [], [], 0, 0
        if characters:
            encode()
        if documents:
            yield self._run(documents, encoded, counts)

    def _count_unknown(
        self, texts: list[str], ids: np.ndarray, lengths: np.ndarray, counts: Counter[str]
    ) -> None:
        """Count unknown tokens, and the unknown characters of the texts with the first of them."""
        positions = np.flatnonzero(ids == self.tokenizer.unk_id)
        counts["unknown_tokens"] += len(positions)
        counts["characters"] += sum(map(len, texts))
        found = texts_at(positions[:_MOST_UNKNOWN], lengths).tolist()
        sampled, lost = self._unknown.in_unknown_tokens(texts[number] for number in found)
        counts["sampled_unknown_tokens"] += sampled
        counts["characters_of_sampled_unknown_tokens"] += lost
        characters = self._unknown.count(texts[number] for number in found)
        for character, count in characters.items():
            counts[UNKNOWN_CHARACTER + character] += count

    def _run(
        self,
        documents: list[TextDocument],
        encoded: list[tuple[np.ndarray, np.ndarray]],
        counts: Counter[str],
    ) -> Run:
        tokenized = join_documents(documents, encoded, self.token_dtype)
        seed = self._options.random_seed
        file = np.array([document.file for document in documents])
        offset = np.array([document.offset for document in documents])
        copies = range(self._options.dupe_factor)
        seeds = [derive_seeds(seed, copy, file, offset) for copy in copies]
        pairs = [make_pairs(tokenized, self.word_starts, self.pairing, each) for each in seeds]
        counts.update(
            documents=int((np.diff(tokenized.document_offsets) > 0).sum()),
            sentences=len(tokenized.sentence_offsets) - 1,
            tokens=len(tokenized.ids),
            truncated_tokens=sum(copy.truncated_tokens for copy in pairs),
            dropped_chunks=sum(copy.dropped_chunks for copy in pairs),
            examples=sum(len(copy.seeds) for copy in pairs),
        )
        return make_run(tokenized.ids, pairs, derive_seeds(seed, file, offset), seed, self._buckets)

    def examples_of(
        self, slices: Sequence[Bucket], counts: Counter[str]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Shuffle and masks the examples of a bucket.

        Args:
            slices: the content of the bucket, in the order of the units.
            counts: updated with the numbers of examples, tokens and masks.

        Yields:
            Batches of examples, or of rows, by feature name, each array `[batch, *feature shape]`.
        """
        bucket, order = merge(slices, self._options.random_seed)
        examples = bucket.examples[order]
        begins = _offsets(bucket.examples["first"].astype(np.int64) + bucket.examples["second"])
        begins = begins[:-1][order]
        middles = begins + examples["first"]
        spans = np.stack([begins, middles, middles, middles + examples["second"]], 1)
        labels, seeds = examples["label"].astype(np.bool_), examples["seed"]
        if self.pairing.objective == "nsp":
            most, documents = self.pairing.max_num_tokens, examples["document"]
            spans, labels, truncated = exchange_seconds(spans, labels, seeds, documents, most)
            counts["truncated_tokens"] += truncated
        elif self._options.swapped_in_training:
            spans[labels] = spans[labels][:, [2, 3, 0, 1]]  # back in order
            labels = np.zeros_like(labels)
        length = self.pairing.max_seq_length
        for batch, places in self._batches(spans, seeds):
            built = assemble(bucket.tokens, spans[batch], self.tokenizer, self.word_starts, length)
            yield self._features(built, labels[batch], seeds[batch], places, counts)

    def _batches(
        self, spans: np.ndarray, seeds: np.ndarray
    ) -> Iterator[tuple[np.ndarray, Places | None]]:
        """Yield the numbers of examples that are written together, and their places in rows."""
        if not self._options.pack_rows:
            for begin in range(0, len(spans), _EXAMPLES_AT_ONCE):
                yield np.arange(begin, min(begin + _EXAMPLES_AT_ONCE, len(spans))), None
            return
        sequence, masking = self.pairing.max_seq_length, self.masks.masking
        capacities = sequence, masking.max_predictions, most_examples(sequence)
        lengths = example_lengths(spans)
        for begin in range(0, len(spans), _EXAMPLES_PACKED_AT_ONCE):
            chunk = slice(begin, begin + _EXAMPLES_PACKED_AT_ONCE)
            predictions = masking.row_budgets(lengths[chunk], sequence)
            order, rows = plan_rows(lengths[chunk], predictions, capacities, seeds[chunk])
            order += begin
            yield order, Places.one_after_the_other(rows, lengths[order])

    def _features(
        self,
        examples: Examples,
        labels: np.ndarray,
        seeds: np.ndarray,
        places: Places | None,
        counts: Counter[str],
    ) -> dict[str, np.ndarray]:
        is_token = np.arange(examples.input_ids.shape[1]) < examples.lengths[:, None]
        features = {
            "input_ids": examples.input_ids,
            "input_mask": is_token.astype(np.int32),
            "segment_ids": examples.segment_ids,
            "token_boundary": examples.token_boundary,
            "next_sentence_labels": labels.astype(np.int32)[:, None],
        }
        counts.update(
            written_examples=len(labels),
            example_tokens=int(examples.lengths.sum()),
            positive_labels=int(labels.sum()),
        )
        if places:
            features = places.pack(features, self.tokenizer.pad_id)
            counts["written_rows"] += len(features["input_ids"])
        if self._options.masking == "dynamic":
            return features
        masked = draw_masks(
            features["input_ids"],
            examples.lengths,
            features["token_boundary"],
            seeds,
            self.masks,
            places,
        )
        counts["masked_tokens"] += int(masked.weights.sum())
        for n, (drawn, covered) in enumerate(
            zip(masked.drawn_lengths.tolist(), masked.masked_lengths.tolist(), strict=True), start=1
        ):
            counts[f"ngrams_drawn_{n}"] += drawn
            counts[f"ngrams_masked_{n}"] += covered
        return features | masked.features()


def join_documents(
    documents: Sequence[TextDocument],
    encoded: Sequence[tuple[np.ndarray, np.ndarray]],
    dtype: type[np.unsignedinteger],
) -> TokenizedDocuments:
    """Join tokenized documents into one flat array.

    Sentences without tokens (only control characters) are dropped.

    Args:
        encoded: the results of `Tokenizer.encode_flat` for all their sentences, in order: ids
            `[tokens]` and lengths `[sentences]`.
    """
    lengths = np.concatenate([lengths for _, lengths in encoded])
    has_token = lengths > 0
    sentences = np.array([len(document.sentences) for document in documents])
    return TokenizedDocuments(
        ids=np.concatenate([ids for ids, _ in encoded]).astype(dtype),
        sentence_offsets=_offsets(lengths[has_token]),
        document_offsets=_offsets(has_token)[_offsets(sentences)],
    )


def masking_of(options: PretrainingDataOptions) -> Masking:
    return Masking(
        options.max_predictions_per_seq,
        options.masked_lm_prob,
        options.ngram,
        options.favor_shorter_ngram,
        options.do_permutation,
        options.do_whole_word_mask,
    )


def load_tokenizer(options: PretrainingDataOptions) -> Tokenizer:
    """Load the tokenizer of `spm_model_file`, or of `vocab_file` alone.

    Raises:
        InputError: If a file is missing or is not a vocabulary, or if the two files differ.
    """
    path = options.spm_model_file or options.vocab_file
    assert path is not None  # ensured by `PretrainingDataOptions.check`
    with arguments_renamed(path="spm_model_file" if options.spm_model_file else "vocab_file"):
        tokenizer = Tokenizer.load(path, options.do_lower_case)
    if options.spm_model_file and options.vocab_file:
        pieces = [line.split("\t")[0] for line in files.read_lines(options.vocab_file)]
        if pieces != tokenizer.pieces:
            raise InputError(
                f"`vocab_file`={options.vocab_file}: has {len(pieces):,} pieces and is not the "
                f"vocabulary of {options.spm_model_file} ({tokenizer.vocab_size:,} pieces)"
            )
    return tokenizer


def _offsets(lengths: np.ndarray) -> np.ndarray:
    """Return where each of consecutive items begins, and the end: int64 `[items + 1]`."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

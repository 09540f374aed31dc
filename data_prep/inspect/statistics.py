"""Statistics of all examples of some files, in one pass and little memory, and plots of them."""

import textwrap
import warnings
from collections import Counter
from collections.abc import Mapping

import numpy as np

from albert_tf import files
from albert_tf.input.features import Feature
from albert_tf.logs import counted
from data_prep.inspect.examples import WIDTH, Batch, Names

_FREQUENT_WORDS = 20
_MASK_OUTCOMES = ("[MASK]", "kept", "replaced")
_MAX_RUN = 8  # longer runs of masked words are counted as this length

_EXPECTED_SHARES = (0.8, 0.1, 0.1)  # as in BERT
# Fonts with CJK characters, used after the default one if installed.
_FONTS = ("Noto Sans CJK SC", "Noto Sans CJK JP", "WenQuanYi Zen Hei", "Arial Unicode MS", "SimHei")


class Statistics:
    """Statistics of the examples added so far.

    Args:
        features: the features of the examples; `masked_lm_*` are needed for statistics of masks.

    Attributes:
        sequence: length of the examples, or rows, in tokens, including padding.
        rows: number of rows; 0 if every example is one.
        lengths: int64 `[seq + 1]`, number of examples by their number of tokens.
        first_segment_tokens: number of tokens in all first segments.
        unknown: number of tokens that the vocabulary does not contain, before masking.
        labels: int64 `[2]`, number of examples by label; None without labels.
        masked: int64 `[predictions + 1]`, number of examples by their number of masked tokens; None
            without masks.
        outcomes: int64 `[3]`: masked tokens that became `[MASK]`, were kept, were replaced.
        runs: int64 `[_MAX_RUN + 1]`: runs of adjacent masked tokens, by their number of words.
        words: how often each word was masked, by the tuple of its ids.
    """

    def __init__(self, features: Mapping[str, Feature]):
        self.sequence = features["input_ids"].shape[0]
        self.lengths = np.zeros(self.sequence + 1, np.int64)
        self.first_segment_tokens = self.unknown = self.rows = 0
        self.labels = np.zeros(2, np.int64) if "next_sentence_labels" in features else None
        self.masked = None
        if "masked_lm_weights" in features:
            self.masked = np.zeros(features["masked_lm_weights"].shape[0] + 1, np.int64)
        self.outcomes = np.zeros(len(_MASK_OUTCOMES), np.int64)
        self.runs = np.zeros(_MAX_RUN + 1, np.int64)
        self.words: Counter[tuple[int, ...]] = Counter()
        self._mask_id: int | None = None

    @property
    def examples(self) -> int:
        return int(self.lengths.sum())

    @property
    def tokens(self) -> int:
        return int(self.lengths @ np.arange(len(self.lengths)))

    @property
    def positions(self) -> int:
        """Number of tokens and padding."""
        return (self.rows or self.examples) * self.sequence

    def add(self, batch: Batch, names: Names) -> None:
        """Add a batch of examples."""
        names.check(batch["input_ids"])
        is_token = batch["input_mask"] > 0
        if "row" in batch:
            self.rows += len(np.unique(batch["row"]))
        self.lengths += np.bincount(is_token.sum(axis=1), minlength=len(self.lengths))
        self.first_segment_tokens += int((is_token & (batch["segment_ids"] == 0)).sum())
        if names.tokenizer:
            self.unknown += int((is_token & (batch["input_ids"] == names.tokenizer.unk_id)).sum())
        if self.labels is not None:
            self.labels += np.bincount(batch["next_sentence_labels"][:, 0] > 0, minlength=2)
        if self.masked is not None:
            masked = (batch["masked_lm_weights"] > 0).sum(axis=1)
            self.masked += np.bincount(masked, minlength=len(self.masked))
            self._add_masks(batch, names)

    def _add_masks(self, batch: Batch, names: Names) -> None:
        names.check(batch["masked_lm_ids"])
        is_masked = batch["masked_lm_weights"] > 0
        row, column = np.nonzero(is_masked)
        position = batch["masked_lm_positions"][row, column]
        ids = batch["masked_lm_ids"][row, column]
        order = np.lexsort((position, row))
        row, position, ids = row[order], position[order], ids[order]
        if not len(ids):
            return

        seen = batch["input_ids"][row, position]
        if names.tokenizer:
            is_unknown = np.stack([ids, seen]) == names.tokenizer.unk_id
            self.unknown += int(is_unknown[0].sum() - is_unknown[1].sum())
        if self._mask_id is None:
            self._mask_id = names.mask_id(seen, ids)
        outcomes = np.select([seen == self._mask_id, seen == ids], [0, 1], 2)
        self.outcomes += np.bincount(outcomes, minlength=len(_MASK_OUTCOMES))

        starts_run = np.ones(len(ids), bool)
        starts_run[1:] = (row[1:] != row[:-1]) | (position[1:] != position[:-1] + 1)
        starts_word = np.ones(len(ids), bool)
        if "token_boundary" in batch:
            starts_word = starts_run | (batch["token_boundary"][row, position] > 0)
        words_of_run = np.add.reduceat(starts_word, np.flatnonzero(starts_run), dtype=np.int64)
        self.runs += np.bincount(np.minimum(words_of_run, _MAX_RUN), minlength=_MAX_RUN + 1)

        begins = np.flatnonzero(starts_word).tolist()
        listed = ids.tolist()
        self.words.update(
            tuple(listed[begin:end])
            for begin, end in zip(begins, [*begins[1:], len(listed)], strict=True)
        )

    def table(self, file_count: int, names: Names) -> str:
        """Return all statistics as text."""
        tokens, positions = self.tokens, self.positions
        in_rows = f"{self.rows:,} rows of " if self.rows else ""
        padding = f"{positions:,} positions; padding {1 - tokens / positions:.1%}"
        if self.rows:
            padding = f"{positions:,} positions; {tokens / positions:.1%} filled"
        first = self.first_segment_tokens / self.examples
        rows = [
            ("examples", f"{self.examples:,} in {in_rows}{counted(file_count, 'file')}"),
            ("tokens", f"{tokens:,} in {padding}"),
            ("length", _spread(self.lengths)),
            ("segments", f"first {first:.1f}, second {tokens / self.examples - first:.1f} tokens"),
        ]
        if names.tokenizer:
            share = self.unknown / max(1, tokens)
            rows.append(("unknown", f"{self.unknown:,} tokens, {share:.2%} of all"))
        if self.labels is not None:
            shares = zip(names.labels, self.labels / self.examples, strict=True)
            rows.append(("labels", ", ".join(f"{name} {share:.1%}" for name, share in shares)))
        if self.masked is None:
            rows.append(("masks", "none; drawn during training"))
        elif not self.outcomes.sum():
            rows.append(("masks", "no token is masked"))
        else:
            rows += self._mask_rows(self.masked, names)
        width = max(len(name) for name, _ in rows) + 2
        return "\n".join(
            textwrap.fill(
                text,
                WIDTH,
                initial_indent=f"{name:{width}}",
                subsequent_indent=" " * width,
                break_long_words=False,
            )
            for name, text in rows
        )

    def _mask_rows(self, masked_counts: np.ndarray, names: Names) -> list[tuple[str, str]]:
        masked = int(self.outcomes.sum())
        outcomes = zip(_MASK_OUTCOMES, self.outcomes / masked, strict=True)
        runs = [
            f"{number}{'+' * (number == _MAX_RUN)}: {share:.1%}"
            for number, share in enumerate(self.runs / self.runs.sum())
            if share > 0
        ]
        return [
            ("masked", f"{masked:,} tokens, {masked / max(1, self.tokens):.1%} of all"),
            ("masked per example", _spread(masked_counts)),
            ("of these", ", ".join(f"{name} {share:.1%}" for name, share in outcomes)),
            # Adjacent spans cannot be distinguished from longer ones.
            ("adjacent words", ", ".join(runs)),
            ("top masked words", ", ".join(f"{w} {n:,}" for w, n in self.frequent_words(names))),
        ]

    def frequent_words(self, names: Names) -> list[tuple[str, int]]:
        """Return the most frequently masked words and their counts, in a deterministic order."""
        frequent = sorted(self.words.items(), key=lambda item: (-item[1], item[0]))
        return [(names.word(ids), count) for ids, count in frequent[:_FREQUENT_WORDS]]


def _spread(counts: np.ndarray) -> str:
    """Describe a distribution, given as counts by value: `mean 118.2, median 125, 14 to 128`."""
    total = counts.sum()
    mean = counts @ np.arange(len(counts)) / total
    median = int(np.searchsorted(np.cumsum(counts), total / 2))
    present = np.flatnonzero(counts)
    return f"mean {mean:.1f}, median {median}, {present[0]} to {present[-1]}"


def plot(statistics: Statistics, names: Names, path: str) -> None:
    """Write a PNG file with a plot for each group of statistics."""
    import matplotlib
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    plots = [_lengths]
    if statistics.labels is not None:
        plots.append(_labels)
    if statistics.outcomes.sum():
        plots += [_masked, _outcomes, _runs, _words]
    installed = {font.name for font in font_manager.fontManager.ttflist}
    fonts = ["DejaVu Sans", *(font for font in _FONTS if font in installed)]
    rows = (len(plots) + 2) // 3
    columns = min(len(plots), 3)
    with matplotlib.rc_context({"font.family": fonts}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure = Figure(figsize=(5 * columns, 4 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        for number, draw in enumerate(plots, start=1):
            draw(figure.add_subplot(rows, columns, number), statistics, names)
        examples = counted(statistics.examples, "example")
        figure.suptitle(f"{examples}, {counted(statistics.tokens, 'token')}")
        with files.replacing(path) as partial, files.open_file(partial, "wb") as file:
            figure.savefig(file, format="png", dpi=120)


def _lengths(axes, statistics: Statistics, names: Names) -> None:
    bins = np.linspace(0, statistics.sequence, min(statistics.sequence, 32) + 1)
    axes.hist(np.arange(len(statistics.lengths)), bins=bins, weights=statistics.lengths)
    padding = 1 - statistics.tokens / statistics.positions
    axes.set(title=f"Length, padding {padding:.1%}", xlabel="tokens", ylabel="examples")


def _labels(axes, statistics: Statistics, names: Names) -> None:
    assert statistics.labels is not None  # only drawn for files with labels
    _bars(axes, names.labels, statistics.labels / statistics.labels.sum())
    axes.axhline(0.5, color="gray", linestyle="--", linewidth=1)
    axes.set(title="Pair labels (dashed: even)", ylabel="share of examples")


def _masked(axes, statistics: Statistics, names: Names) -> None:
    assert statistics.masked is not None  # only drawn for files with masks
    axes.bar(np.arange(len(statistics.masked)), statistics.masked, width=1, edgecolor="white")
    share = statistics.outcomes.sum() / max(1, statistics.tokens)
    axes.set(title=f"Masked, {share:.1%} of all tokens", xlabel="masked tokens", ylabel="examples")


def _outcomes(axes, statistics: Statistics, names: Names) -> None:
    _bars(axes, _MASK_OUTCOMES, statistics.outcomes / statistics.outcomes.sum())
    for position, expected in enumerate(_EXPECTED_SHARES):
        axes.hlines(
            expected, position - 0.4, position + 0.4, color="gray", linestyle="--", linewidth=1
        )
    axes.set(
        title="Replacement of masked tokens (dashed: expected)", ylabel="share of masked tokens"
    )


def _runs(axes, statistics: Statistics, names: Names) -> None:
    longest = int(np.flatnonzero(statistics.runs)[-1])
    labels = [f"{n}{'+' * (n == _MAX_RUN)}" for n in range(1, longest + 1)]
    _bars(axes, labels, statistics.runs[1 : longest + 1] / statistics.runs.sum())
    axes.set(title="Adjacent masked words", xlabel="words", ylabel="share of runs")


def _words(axes, statistics: Statistics, names: Names) -> None:
    words = statistics.frequent_words(names)
    axes.barh(range(len(words)), [count for _, count in words])
    axes.set_yticks(range(len(words)), [word.replace("$", r"\$") for word, _ in words], fontsize=7)
    axes.invert_yaxis()
    axes.set(title="Most frequently masked words", xlabel="times")


def _bars(axes, labels, shares: np.ndarray) -> None:
    bars = axes.bar(labels, shares)
    axes.bar_label(bars, [f"{share:.1%}" for share in shares], fontsize=8)
    axes.margins(y=0.1)

"""Report sections for tagging."""

import collections
import functools
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.report.breakdowns import by_label, predictions
from albert_tf.report.intervals import bootstrap, wilson
from albert_tf.report.sections import Section, error_section, matrix
from albert_tf.tasks.tagging.tags import Entity, Scores, count_matches
from albert_tf.tasks.tagging.windows import WordTags

# Columns of the confusion table after the types: what else can become of an entity.
_BOUNDARY, _MISSED = "other boundaries", "missed"
_SPURIOUS = "(no entity)"
# Larger tables of types are hard to read.
_MOST_TYPES = 15
_CONTEXT = 60  # characters shown around the errors of a text


def entity_sections(
    texts: Sequence[str], truth: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]]
) -> list[Section]:
    """Return results by type, confused types, and the worst errors, from the entities of texts."""
    counts = count_matches(truth, predicted)
    rows = [(label or "all types", *scores) for label, scores in counts.items()]
    by_type = by_label("type", "entities", rows[1:] + rows[:1])
    errors = [find_errors(true, found) for true, found in zip(truth, predicted, strict=True)]
    pairs = zip(truth, predicted, strict=True)
    of_texts = np.array([count_matches([true], [found])[""] for true, found in pairs], float)

    def statistic(name: str, drawn: np.ndarray) -> np.ndarray:
        return np.array([getattr(Scores(*sums), name) for sums in drawn @ of_texts])

    intervals = {
        f"eval_{name}": bootstrap(functools.partial(statistic, name), len(texts))
        for name in ("precision", "recall", "f1")
    }
    return [
        Section("Entities", tables=[by_type], intervals=intervals),
        _confusion(truth, errors),
        _worst_errors(texts, truth, predicted, errors),
    ]


Error = tuple[str, Entity | None, Entity | None]


def find_errors(truth: Iterable[Entity], predicted: Iterable[Entity]) -> list[Error]:
    """Return pairs the wrong entities of a text with the true ones.

    Returns:
        What is wrong ("wrong type", "wrong boundaries", "wrong type and boundaries", "missed",
        "spurious"), the true entity and the predicted one, in the order of the text.
    """
    true_by_key = {each.key: each for each in truth}
    found_by_key = {each.key: each for each in predicted}
    missed = [each for key, each in true_by_key.items() if key not in found_by_key]
    spurious = [each for key, each in found_by_key.items() if key not in true_by_key]
    errors: list[Error] = []
    for kind, matches in (
        ("wrong type", lambda one, other: one.span == other.span),
        ("wrong boundaries", lambda one, other: one.label == other.label and _overlap(one, other)),
        ("wrong type and boundaries", lambda one, other: _overlap(one, other)),
    ):
        for entity in list(missed):
            other = next((each for each in spurious if matches(entity, each)), None)
            if other is not None:
                missed.remove(entity)
                spurious.remove(other)
                errors.append((kind, entity, other))
    errors += [("missed", entity, None) for entity in missed]
    errors += [("spurious", None, entity) for entity in spurious]
    return sorted(errors, key=lambda error: (error[1] or error[2]).start)  # type: ignore[union-attr]


def _overlap(one: Entity, other: Entity) -> bool:
    return one.start < other.end and other.start < one.end


def _confusion(truth: Sequence[Sequence[Entity]], errors: Sequence[list[Error]]) -> Section:
    confused: collections.Counter[tuple[str, str]] = collections.Counter()
    support = collections.Counter(label for each in truth for label, *_ in {e.key for e in each})
    for kind, true, found in (error for of_text in errors for error in of_text):
        if true is None or found is None:
            confused[true.label if true else _SPURIOUS, found.label if found else _MISSED] += 1
        else:
            confused[true.label, found.label if kind == "wrong type" else _BOUNDARY] += 1
    for label in support:
        wrong = sum(count for (of, _), count in confused.items() if of == label)
        confused[label, label] += support[label] - wrong
    seen = {label for pair in confused for label in pair} - {_SPURIOUS, _BOUNDARY, _MISSED}
    types = sorted(seen, key=lambda label: (-support[label], label))[:_MOST_TYPES]
    columns = (*types, _BOUNDARY, _MISSED)
    counts = {of: [confused[of, column] for column in columns] for of in (*types, _SPURIOUS)}
    text = "Rows are the entities of the data by type, columns what was predicted for them."
    return Section("Confusion of types", text, tables=[matrix(("type", *columns), counts)])


def _worst_errors(
    texts: Sequence[str],
    truth: Sequence[Sequence[Entity]],
    predicted: Sequence[Sequence[Entity]],
    errors: Sequence[list[Error]],
) -> Section:
    """Return texts with the most errors first, and among these the most confident."""

    def severity(row: tuple) -> tuple[int, float]:
        return len(row[-1]), sum(found.score for _, _, found in row[-1] if found)

    wrong = [row for row in zip(texts, truth, predicted, errors, strict=True) if row[-1]]
    rows = []
    for text, true, found, of_text in sorted(wrong, key=severity, reverse=True):
        places = [entity for _, *pair in of_text for entity in pair if entity]
        start = max(min(each.start for each in places) - _CONTEXT, 0)
        end = max(each.end for each in places) + _CONTEXT
        marked = (marked_text(text, entities, start, end) for entities in (true, found))
        rows.append((*marked, "\n".join(map(_described, of_text))))
    columns = dict.fromkeys(("text", "prediction", "errors"), "")
    return error_section(columns, rows, len(texts), unit="texts")


def marked_text(text: str, entities: Iterable[Entity], start: int, end: int) -> str:
    """Return part of a text with its entities in brackets: "flew to [Paris LOC] today"."""
    parts, place = ["... " if start else ""], start
    for each in sorted(entities, key=lambda each: (each.start, each.end)):
        if each.start < place or each.end > end:
            continue  # outside of the part, or inside of another entity
        parts += [text[place : each.start], f"[{each.text} {each.label}]"]
        place = each.end
    return "".join([*parts, text[place:end], " ..." if end < len(text) else ""])


def _described(error: Error) -> str:
    kind, true, found = error
    names = (f"{each.text} ({each.label})" for each in (true, found) if each is not None)
    score = f", {found.score:.1%}" if found is not None else ""
    return f"{kind}: {' → '.join(names)}{score}"


def tag_sections(
    words: Sequence[Sequence[str]], truth: Sequence[Sequence[str]], predicted: Sequence[WordTags]
) -> list[Section]:
    """Return results by tag, and the most frequent errors, from the tags of the words of texts."""
    rows = [
        (word, tag, found)
        for of_text, tags, prediction in zip(words, truth, predicted, strict=True)
        for word, tag, found in zip(of_text, tags, prediction.tags, strict=True)
    ]
    support = collections.Counter(tag for _, tag, _ in rows)
    found = collections.Counter(found for _, _, found in rows)
    correct = collections.Counter(tag for _, tag, found in rows if tag == found)
    by_tag = [(tag, support[tag], found[tag], correct[tag]) for tag in sorted(support | found)]
    intervals = {"eval_accuracy": wilson(correct.total(), len(rows))}
    errors = collections.Counter(row for row in rows if row[1] != row[2])
    confused = [(*row, f"{count:,}") for row, count in errors.most_common()]
    columns = dict.fromkeys(("word", "tag", "prediction", "times"), "")
    return [
        Section("Tags", tables=[by_label("tag", "words", by_tag)], intervals=intervals),
        error_section(columns, confused, len(rows), unit="words"),
    ]


def predicted_section(predicted: Sequence[WordTags]) -> Section:
    """Return how often each tag is predicted, and with what mean probability."""
    scores: dict[str, list[float]] = collections.defaultdict(list)
    for each in predicted:
        for tag, score in zip(each.tags, each.scores, strict=True):
            scores[tag].append(score)
    ordered = dict(sorted(scores.items(), key=lambda item: -len(item[1])))
    return predictions("tag", ordered, sum(map(len, scores.values())))

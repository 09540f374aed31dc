"""The report on pretraining: `report.html` in the output folder."""

import os
from collections.abc import Mapping

import keras
import numpy as np

from albert_tf.interop.adjacent_files import AdjacentFiles, find_adjacent_files, load_tokenizer
from albert_tf.logs import counted
from albert_tf.report.charts import SMOOTHED, Curve, draw_curves
from albert_tf.report.intervals import wilson
from albert_tf.report.sections import REPORT_FILE, Headline, Page, Section, table, write_page
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.command_line import commands, versions
from albert_tf.training.evaluation import EVALUATIONS_FILE, BestRecord
from albert_tf.training.held_out import MOST_COUNTED, Baseline, HeldOut, filled_masks
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pair_results import pairs_table
from albert_tf.training.pretraining_tasks import PretrainingTask
from albert_tf.training.rows import METRICS_FILE, Row, readable_rows

# Records of a long run that are read.
_MOST_ROWS = 4000
# Fewer records make no curve, and short runs need not load what draws them.
_FEWEST_POINTS = 10


def write_report(
    options: PretrainingOptions,
    given: PretrainingOptions,
    model: keras.Model,
    task: PretrainingTask,
    step: int,
    held_out: HeldOut | None,
    results: Mapping[str, float],
    best: BestRecord | None = None,
) -> None:
    """Write the report on a run, or on the evaluation of its result, into `output_dir`.

    The options are those of the program, and as the user has `given` them. The model has the
    weights of a `step`, and was evaluated on the task, or trained on it without evaluation; then
    `held_out` is None and `results`, of the latest evaluation by this process, are empty. `best` is
    the checkpoint in `best/`, if there is one.
    """
    folder = options.output_dir
    training, evaluations = (
        readable_rows(f"{folder}/{name}", _MOST_ROWS) for name in (METRICS_FILE, EVALUATIONS_FILE)
    )
    results = results or next(reversed(evaluations), {})
    adjacent = find_adjacent_files(folder)
    tokenizer = None
    if held_out is not None and adjacent.vocabulary:
        tokenizer = load_tokenizer(adjacent.vocabulary, None, [adjacent])
    baselines = _baselines(task, held_out, tokenizer) if results else {}
    text = "held-out text" if options.eval_input_file else "the training files"
    name, headlines = "masked_lm_accuracy", []
    if name in results:
        interval, method = _interval(results, name)
        notes = [f"95% interval {interval} ({method})"] if interval else []
        value = f"{results[name]:.1%}"
        headlines.append(Headline(f"masked-token accuracy on {text}", value, notes))
    trained = f"{_model(options, model)}{_corpora(adjacent)}: {counted(step, 'step')}"
    page = Page(
        title=f"Pretraining of {trained}",
        subtitle=folder,
        headlines=headlines,
        sections=[
            *(_scores(f"Results on {text}", task, results, baselines) if results else ()),
            *_pairs(results),
            *(filled_masks(held_out, tokenizer) if held_out and tokenizer else ()),
            *_learning(task, training, evaluations, baselines, best),
            *_speed(training),
            _data(options, adjacent, model),
        ],
        command=commands(given),
        versions=versions(),
    )
    write_page(f"{folder}/{REPORT_FILE}", page)


def _title(part: str) -> str:
    return part.replace("masked_lm", "masked-token").replace("_", "-").capitalize()


def _model(options: PretrainingOptions, model: keras.Model) -> str:
    name = os.path.basename(options.albert_config_file or "").removesuffix(".json")
    if name in ("", "albert_config"):
        config = model.config
        return f"ALBERT ({config.num_hidden_layers} layers of {config.hidden_size})"
    return name


def _corpora(adjacent: AdjacentFiles) -> str:
    """Return " on DATA", the names of the training corpora, if they are recorded."""
    found: list[str] = []
    for manifest in adjacent.data.values():
        texts = manifest.get("corpora") or manifest["settings"].get("input_file") or ()
        found += map(os.path.basename, texts)
    names = list(dict.fromkeys(found))
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f" on {', '.join(names[:2])}{more}" if names else ""


def _baselines(
    task: PretrainingTask, held_out: HeldOut | None, tokenizer: Tokenizer | None
) -> dict[str, tuple[str, Baseline]]:
    """Return part -> the constant answer in words, and its scores."""
    if held_out is None:
        return {}
    found = held_out.baselines()
    named = {}
    if masked := found.get("masked_lm"):
        text = tokenizer.decode([masked.answer]) if tokenizer else ""
        words = f"“{text}”" if text else "the most frequent token"
        named["masked_lm"] = (f"always {words}", masked)
    for part in task.objective.parts[1:] if "pairs" in found else ():
        named[part] = ("always the same label", found["pairs"])
    return named


def _interval(results: Mapping[str, float], name: str) -> tuple[str, str]:
    """Return the interval of an accuracy and its method; empty if the count is not recorded."""
    count = int(results.get(f"{name.removesuffix('_accuracy')}_weight", 0))
    if not count:
        return "", ""
    low, high, method = wilson(results[name] * count, count)
    return f"{low:.1%} to {high:.1%}", f"{method}, {count:,} predictions"


def _scores(
    title: str,
    task: PretrainingTask,
    results: Mapping[str, float],
    baselines: Mapping[str, tuple[str, Baseline]],
) -> list[Section]:
    """Return the held-out results next to those of a constant answer, and a warning if due."""
    rows, failed = [], []
    for name in task.objective.quantities:
        part, measure = name.rsplit("_", 1)
        if name not in results:
            continue
        form = "{:.1%}" if measure == "accuracy" else "{:.3f}"
        words, constant = baselines.get(part, ("", None))
        value = getattr(constant, measure, None)
        if measure == "accuracy" and constant and results[name] <= constant.accuracy:
            failed.append(f"{_title(part)} accuracy is not above that of {words}.")
        interval = _interval(results, name)[0] if measure == "accuracy" else ""
        baseline = form.format(value) if value is not None else ""
        scored = form.format(results[name])
        rows.append((f"{_title(part)} {measure}", scored, interval, baseline, words))
    if "bits_per_character" in results:
        rows.append(("Bits per character", f"{results['bits_per_character']:.3f}", "", "", ""))
    step = results.get("global_step", results.get("step", 0))
    text = (
        f"After step {step:,.0f}. The baseline is the best constant prediction, without a model; "
        "its loss is the entropy of what is predicted. It is computed on up to "
        f"{MOST_COUNTED:,} examples."
    )
    numbers = dict.fromkeys(("model", "95% interval", "baseline"), ">")
    scores = table({"result": "", **numbers, "baseline predicts": ""}, rows)
    warnings = [Section("Warning: no better than a constant answer", " ".join(failed))]
    return [*(warnings if failed else ()), Section(title, text, tables=[scores])]


def _pairs(results: Mapping[str, float]) -> list[Section]:
    if "pairs_accuracy" not in results:
        return []
    text = (
        "How often the good sentence of a pair has the higher pseudo-log-likelihood, with the rest "
        f"of each word hidden; {results['pairs_original_accuracy']:.1%} of all with single tokens "
        "hidden. A coin is right half of the time."
    )
    return [Section("Minimal pairs", text, tables=[pairs_table(results)])]


def _learning(
    task: PretrainingTask,
    training: list[Row],
    evaluations: list[Row],
    baselines: Mapping[str, tuple[str, Baseline]],
    best: BestRecord | None,
) -> list[Section]:
    def both(quantity: str) -> list[Curve]:
        held_out = Curve("held out", evaluations, quantity)
        return [Curve("training", training, quantity, smoothed=True), held_out]

    chosen = best.step if best else None
    charts = draw_curves("Loss", both("loss"), chosen=chosen, fewest=_FEWEST_POINTS)
    for part in task.objective.parts:
        known = [baselines[part]] if part in baselines else []
        marks = [(words, each.accuracy) for words, each in known]
        title, curves = f"{_title(part)} accuracy", both(f"{part}_accuracy")
        charts += draw_curves(title, curves, marks, True, chosen, _FEWEST_POINTS)
    pairs = [Curve("all pairs", evaluations, "pairs_accuracy")]
    charts += draw_curves("Minimal pairs", pairs, [], True, chosen, _FEWEST_POINTS)
    charts += _of_training("Learning rate", {"learning rate": "learning_rate"}, training)
    text = SMOOTHED
    if best:
        text += (
            f" The dotted line is the checkpoint with the best {best.metric}: step {best.step:,}."
        )
    return [Section("Training curves", text, charts=charts)] if charts else []


def _speed(training: list[Row]) -> list[Section]:
    forms = {
        "examples_per_second": "{:,.1f} sequences/s",
        "rows_per_second": "{:,.1f} rows/s",
        "tokens_per_second": "{:,.0f} tokens/s",
        "real_tokens_per_second": "{:,.0f} tokens/s without padding",
        "mfu": "model FLOPs utilization {:.1%}",
        "input_wait": "{:.1%} of the time waiting for data",
    }
    found = {name: [row[name] for row in training if name in row] for name in forms}
    medians = [
        forms[name].format(float(np.median(values))) for name, values in found.items() if values
    ]
    if not medians:
        return []
    shares = {"model FLOPs utilization": "mfu", "waiting for data": "input_wait"}
    charts = [
        *_of_training("Sequences per second", {"sequences/s": "examples_per_second"}, training),
        *_of_training(
            "Utilization" if found["mfu"] else "Waiting for data", shares, training, True
        ),
    ]
    return [Section("Speed", f"Median: {', '.join(medians)}.", charts=charts)]


def _of_training(
    title: str, quantities: Mapping[str, str], training: list[Row], percent: bool = False
) -> list[str]:
    curves = [Curve(name, training, quantity) for name, quantity in quantities.items()]
    return draw_curves(title, curves, percent=percent, fewest=_FEWEST_POINTS)


def _data(options: PretrainingOptions, adjacent: AdjacentFiles, model: keras.Model) -> Section:
    counts = ("documents", "sentences", "tokens", "examples")
    rows = [(name, *map(manifest.get, counts)) for name, manifest in adjacent.data.items()]
    evaluated = [(each.data, each.examples) for each in adjacent.evaluated]
    trained_on = {"trained on": "", **dict.fromkeys(counts, ",")}
    tables = [table(trained_on, rows)] if rows else []
    tables += [table({"evaluated on": "", "examples": ","}, evaluated)] if evaluated else []
    packed = any(manifest["settings"].get("pack_rows") for manifest in adjacent.data.values())
    text = (
        f"The encoder has {model.config.parameter_count():,} parameters. "
        f"{'Rows of several examples' if packed else 'Examples'} have up to "
        f"{options.max_seq_length} tokens, of which up to {options.max_predictions_per_seq} are "
        "masked."
    )
    return Section("Model and data", text, tables=tables)

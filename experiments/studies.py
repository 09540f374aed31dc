"""The studies of the paper (arXiv 1909.11942), by name; docs/experiments.md has their results."""

import dataclasses
import pathlib
import runpy
from collections.abc import Callable
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.logs import counted
from experiments.study import (
    DOWNSTREAM,
    GFLOPS,
    LEARNED,
    MASKED_LM,
    MASKED_LM_LOSS,
    PARAMETERS,
    SENTENCE_ORDER,
    SPEED,
    STEPS,
    Column,
    Study,
    Variant,
)  # fmt: skip

STUDIES: dict[str, Study] = {}
ON_SPANS = Column("tokens in spans, %", "masked_lm_accuracy", "spans", percent=True)
ON_TOKENS = Column("single tokens, %", "masked_lm_accuracy", "tokens", percent=True)
SPANS = {"ngram": 3, "do_whole_word_mask": True}
TOKENS = {"ngram": 1, "do_whole_word_mask": False}
NEXT_SENTENCE = Column("NSP, %", "next_sentence_accuracy", "nsp", percent=True, chance=0.5)
ORDER = Column("SOP, %", "sentence_order_accuracy", "sop", percent=True, chance=0.5)
RELATIVE = Column("speed, as a multiple", "relative_speed")


def find_study(name: str) -> Study:
    """Load a study: a key of `STUDIES`, or the path of a Python file.

    Raises:
        InputError: If there is no such study, or the file defines none.
    """
    if name in STUDIES:
        return STUDIES[name]
    if pathlib.Path(name).suffix != ".py":
        raise InputError(
            f"study {name!r}: must be one of {', '.join(STUDIES)}, or the path of a Python file"
        )
    if not pathlib.Path(name).is_file():
        raise InputError(f"study {name}: no such file")
    study = runpy.run_path(name).get("STUDY")
    if not isinstance(study, Study):
        raise InputError(f"study {name}: does not assign a Study to STUDY")
    return study


def _study(title: str, source: str, question: str, **fields: Any) -> Callable[[Callable], Study]:
    """Make a study of a function that returns its variants, and call it as the function."""

    def make(variants: Callable) -> Study:
        STUDIES[variants.__name__] = Study(title, source, question, variants, **fields)
        return STUDIES[variants.__name__]

    return make


@_study(
    "More data",
    "figure 2a and table 7",
    "The same number of steps on more text: what does it gain?",
    columns=(*LEARNED, MASKED_LM_LOSS),
    picture=None,
)
def data(scale):
    # The paper adds the corpora of XLNet and RoBERTa to 16 GB of Wikipedia and books.
    less = {"model": "No additional data", "Avg": 80.1}
    more = {"model": "With additional data", "Avg": 80.8}
    return [
        Variant("an eighth of the text", text_share=0.125, paper=less),
        Variant("all of the text", paper=more),
    ]


@_study(
    "Depth",
    "tables 11 and 13",
    "More layers with the same parameters cost time and no memory for weights. What do they "
    "gain? The paper starts deeper networks from shallower ones; here all start from random "
    "weights.",
    columns=(PARAMETERS, GFLOPS, SPEED, *LEARNED),
    timed=True,
)
def depth(scale):
    averages = {1: 52.9, 3: 71.2, 6: 77.2, 12: 81.5, 24: 82.1, 48: 81.8}  # of ALBERT-large
    rows = []
    for layers in scale.at((1, 2, 3, 6), tuple(averages)[:5], tuple(averages)):
        name = counted(layers, "layer")
        paper = {"model": name, "parameters": "18M", "Avg": averages.get(layers)}
        known = paper if layers in averages else {}
        rows.append(Variant(name, model={"num_hidden_layers": layers}, paper=known))
    return rows


@_study(
    "Dropout",
    "figure 2b and table 8",
    "ALBERT's layers share their parameters. Do they still need dropout?",
    columns=(*LEARNED, MASKED_LM_LOSS),
    picture=None,
)
def dropout(scale):
    return [
        Variant(
            name,
            model={"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate},
            paper={"model": theirs, "Avg": average},
        )
        for name, rate, theirs, average in (
            ("dropout 0.1", 0.1, "With dropout", 90.4),
            ("no dropout", 0.0, "Without dropout", 90.7),
        )
    ]


@_study(
    "Embedding size",
    "table 3",
    "Embeddings of width E, projected to the width H of the layers, take V x E + E x H "
    "parameters instead of V x H. What does a small E cost?",
    columns=(PARAMETERS, *LEARNED),
)
def embedding_size(scale):
    paper = {
        "none": {64: ("87M", 81.3), 128: ("89M", 81.7), 256: ("93M", 81.8), 768: ("108M", 82.3)},
        "all": {64: ("10M", 79.0), 128: ("12M", 80.1), 256: ("16M", 79.6), 768: ("31M", 79.8)},
    }
    sizes = scale.at((16, 32, 64, 128), (64, 128, 256, 768), (64, 128, 256, 768))
    return [
        Variant(
            f"E = {size}, {'not' if sharing == 'none' else 'all'} shared",
            model={"embedding_size": size, "parameter_sharing": sharing},
            paper={"model": f"E = {e}", "parameters": parameters, "Avg": average},
        )
        for sharing, rows in paper.items()
        for size, (e, (parameters, average)) in zip(sizes, rows.items(), strict=True)
    ]


@_study(
    "Masking",
    "section 3.1; the paper has no numbers for it",
    "The paper masks spans of up to three words, short ones more often. Each model is tested "
    "on spans and on single tokens: longer masks are harder.",
    columns=(ON_SPANS, ON_TOKENS, SENTENCE_ORDER, DOWNSTREAM),
    picture=None,
    compared=ON_SPANS,
    evaluate_on={"spans": SPANS, "tokens": TOKENS},
)
def masking(scale):
    return [
        Variant("up to 3 words", data=SPANS),
        Variant("single words", data={"ngram": 1, "do_whole_word_mask": True}),
        Variant("single tokens", data=TOKENS),
        Variant("up to 3 tokens", data={"ngram": 3, "do_whole_word_mask": False}),
    ]


@_study(
    "Equal training time",
    "table 6",
    "A wide ALBERT has fewer parameters than BERT, and takes longer for a step. Which of them "
    "is better after the same time?",
    columns=(PARAMETERS, STEPS, *LEARNED),
    picture=None,
    same_time=True,
)
def same_time(scale):
    # In the paper, ALBERT is four times as wide as BERT, and half as deep.
    layers = scale.config.num_hidden_layers
    bert = scale.at((64, 2, 2 * layers), (512, 8, 2 * layers), (1024, 16, 24))
    albert = scale.at((128, 4, layers), (1024, 16, layers), (4096, 64, 12))

    def model(shape, **more):
        names = ("hidden_size", "num_attention_heads", "num_hidden_layers")
        return {**dict(zip(names, shape, strict=True)), "intermediate_size": 4 * shape[0], **more}

    start = scale.at({"initializer_range": 64**-0.5}, {}, {})
    return [
        Variant(
            "BERT",
            model=model(bert, embedding_size=bert[0], parameter_sharing="none", **start),
            paper={"model": "BERT-large", "steps": "400k", "time": "34h", "Avg": 87.2},
        ),
        Variant(
            "ALBERT",
            model=model(albert),
            paper={"model": "ALBERT-xxlarge", "steps": "125k", "time": "32h", "Avg": 88.7},
        ),
    ]


@_study(
    "Sentence order and next sentence",
    "table 5",
    "Models trained without a task on pairs of segments, on the next sentence (NSP), or on "
    "order. Each is tested on both tasks, and on masked tokens of text prepared as its own. "
    "Does either task teach the other?",
    columns=(MASKED_LM, NEXT_SENTENCE, ORDER, DOWNSTREAM),
    picture=ORDER,
    reference="NSP",
    compared=ORDER,
    paper_compared="SOP",
    evaluate_on={"nsp": {"pair_objective": "nsp"}, "sop": {"pair_objective": "sop"}},
)
def sentence_order(scale):
    paper = {
        "none": {"model": "None", "MLM": 54.9, "NSP": 52.4, "SOP": 53.3, "Avg": 79.0},
        "NSP": {"model": "NSP", "MLM": 54.5, "NSP": 90.5, "SOP": 52.0, "Avg": 79.2},
        "SOP": {"model": "SOP", "MLM": 54.0, "NSP": 78.9, "SOP": 86.5, "Avg": 80.1},
    }
    return [
        Variant(name, data={"pair_objective": name.lower()}, paper=numbers)
        for name, numbers in paper.items()
    ]


@_study(
    "Parameter sharing",
    "table 4",
    "All layers can share their attention, their feed-forward network, both or nothing. What "
    "does each cost? In groups, neighboring layers share.",
    columns=(PARAMETERS, *LEARNED),
)
def sharing(scale):
    names = {"all": "all", "attention": "attention", "ffn": "feed-forward", "none": "nothing"}
    paper = {
        768: (("31M", 79.8), ("83M", 81.6), ("57M", 79.5), ("108M", 82.3)),
        128: (("12M", 80.1), ("64M", 81.7), ("38M", 80.2), ("89M", 81.6)),
    }
    large, small = scale.at((128, 64), (768, 128), (768, 128))
    layers = scale.at(4, 12, 12)

    def variant(size, name, sharing, paper=None, **more):
        model = {"embedding_size": size, "parameter_sharing": sharing, "num_hidden_layers": layers}
        return Variant(f"E = {size}, {name}", model={**model, **more}, paper=paper or {})

    rows = [
        variant(size, name, sharing, {"model": f"E = {e}", "parameters": count, "Avg": average})
        for size, (e, table) in zip((large, small), paper.items(), strict=True)
        for (sharing, name), (count, average) in zip(names.items(), table, strict=True)
    ]
    # Section 4.5 mentions groups of layers, without numbers.
    groups = layers // 2
    return [*rows, variant(small, f"all in {groups} groups", None, num_hidden_groups=groups)]


@_study(
    "Parameters and speed",
    "table 2",
    "Training steps of the same batch, each model in rounds with BERT large. The paper's "
    "speed is a multiple of BERT-large's as well, on 64 to 512 chips, which also exchange "
    "gradients.",
    columns=(PARAMETERS, GFLOPS, SPEED, RELATIVE),
    picture=RELATIVE,
    reference="BERT large",
    compared=RELATIVE,
    paper_compared="speed",
    trains=False,
    timed=True,
    timed_batch={"tiny": (4, 128)},
)
def speed(scale):
    return [
        Variant(
            name,
            model=dataclasses.asdict(AlbertConfig.preset(size)),
            paper={"model": name, "parameters": parameters, "speed": relative},
        )
        for size, name, parameters, relative in (
            ("bert_base", "BERT base", "108M", 4.7),
            ("bert_large", "BERT large", "334M", 1.0),
            ("base", "ALBERT base", "12M", 5.6),
            ("large", "ALBERT large", "18M", 1.7),
            ("xlarge", "ALBERT xlarge", "60M", 0.6),
            ("xxlarge", "ALBERT xxlarge", "235M", 0.3),
        )
    ]


@_study(
    "Width",
    "table 12",
    "Wider layers, in networks of three layers: what do they gain, and when does it end?",
    columns=(PARAMETERS, GFLOPS, SPEED, *LEARNED),
    timed=True,
)
def width(scale):
    # Of ALBERT-large with 3 layers.
    paper = {1024: ("18M", 71.2), 2048: ("60M", 74.6), 4096: ("225M", 76.3), 6144: ("499M", 74.0)}
    widths = scale.at((64, 96, 128, 192), (256, 512, 768, 1024), tuple(paper))
    heads = scale.config.hidden_size // scale.config.num_attention_heads
    return [
        Variant(
            f"H = {size}",
            model={
                "hidden_size": size,
                "intermediate_size": 4 * size,
                "num_attention_heads": size // heads,
                "num_hidden_layers": 3,
                **scale.at({"initializer_range": size**-0.5}, {}, {}),
            },
            paper={"model": f"H = {theirs}", "parameters": parameters, "Avg": average},
        )
        for size, (theirs, (parameters, average)) in zip(widths, paper.items(), strict=True)
    ]

"""How large the runs of a study are, from two cores to a TPU slice."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig


@dataclasses.dataclass(frozen=True)
class Scale:
    """A model and how it is trained, from which the variants of studies differ.

    Attributes:
        name: "tiny", "small" or "paper".
        config: shape of the model.
        data: flags of data_prep.create_pretraining_data.
        training: flags of run_pretraining.py.
        finetuning: flags of run_classifier.py.
        minutes: training time in studies that give every model the same.
        timed_batch: (sequences, tokens) in a step of studies of speed.
    """

    name: str
    config: AlbertConfig
    data: Mapping[str, Any]
    training: Mapping[str, Any]
    finetuning: Mapping[str, Any]
    minutes: float
    timed_batch: tuple[int, int]

    def at(self, tiny: Any, small: Any, paper: Any) -> Any:
        """Return the value for this scale."""
        return {"tiny": tiny, "small": small, "paper": paper}[self.name]


# Defaults of create_pretraining_data, written out: a variant that asks for one of them is then the
# same run as those of other studies that do not mention it.
DATA = {"pair_objective": "sop", "ngram": 3, "do_whole_word_mask": True}
DYNAMIC = {**DATA, "masking": "dynamic", "dupe_factor": 1}

# Two cores, five minutes a run: the recipe that learns soonest (docs/recipes.md), since models are
# better compared when they have left the plateau. No short documents: one of these may be a book,
# and the seed would decide which.
TINY = Scale(
    name="tiny",
    config=AlbertConfig(
        vocab_size=8000,
        embedding_size=64,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        initializer_range=0.09,  # 1 / sqrt(H)
    ),
    data={
        **DYNAMIC,
        "ngram": 1,
        "masked_lm_prob": 0.28,
        "max_seq_length": 64,
        "max_predictions_per_seq": 18,
        "short_seq_prob": 0,
    },
    training={
        "train_batch_size": 64,
        "optimizer": "muon",
        "bias_correction": True,
        "learning_rate": 0.006,
        "num_warmup_steps": 200,
        "num_train_steps": 2000,
        "iterations_per_loop": 20,
    },
    finetuning={
        "max_seq_length": 64,
        "train_batch_size": 32,
        "learning_rate": 3e-4,
        "train_step": 600,
        "warmup_step": 60,
    },
    minutes=3.0,
    timed_batch=(64, 64),
)
# One GPU, some hours a run: the shape of base, a sixteenth of the batch, a sixth of the steps.
SMALL = Scale(
    name="small",
    config=AlbertConfig.preset("base"),
    data={**DYNAMIC, "max_seq_length": 512, "max_predictions_per_seq": 76},
    training={
        "train_batch_size": 256,
        "learning_rate": 0.00176 / 4,  # the square-root rule
        "num_warmup_steps": 1000,
        "num_train_steps": 20000,
        "dtype": "bfloat16",
    },
    finetuning={
        "max_seq_length": 128,
        "train_batch_size": 32,
        "learning_rate": 3e-5,
        "train_step": 6000,
        "warmup_step": 600,
    },
    minutes=240.0,
    timed_batch=(8, 512),
)
# A TPU slice, as in the paper (sections 4.1 and A.4).
PAPER = Scale(
    name="paper",
    config=AlbertConfig.preset("base", version=1),
    data={**DATA, "max_seq_length": 512, "max_predictions_per_seq": 20},
    training={
        "train_batch_size": 4096,
        "learning_rate": 0.00176,
        "num_warmup_steps": 3125,
        "num_train_steps": 125000,
        "dtype": "bfloat16",
    },
    finetuning={
        "max_seq_length": 512,
        "train_batch_size": 32,
        "learning_rate": 1e-5,
        "train_step": 20935,
        "warmup_step": 1256,
    },
    minutes=32 * 60.0,
    timed_batch=(8, 512),
)
SCALES = {scale.name: scale for scale in (TINY, SMALL, PAPER)}

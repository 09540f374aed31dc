"""Hugging Face's PyTorch model, with its default attention (SDPA)."""

import functools

import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers.models.albert.modeling_albert import AlbertMLMHead

from benchmarks.implementations.workload import Workload

CONFIG_FIELDS = (
    *("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers", "num_hidden_groups"),
    *("num_attention_heads", "intermediate_size", "max_position_embeddings"),
)


class Pretraining(torch.nn.Module):
    """The parts of `AlbertForPreTraining`, which itself predicts tokens at all positions."""

    def __init__(self, config):
        super().__init__()
        self.albert = transformers.AlbertModel(config)
        self.masked_lm = AlbertMLMHead(config)
        self.masked_lm.decoder.weight = self.albert.embeddings.word_embeddings.weight
        self.order = torch.nn.Linear(config.hidden_size, 2)

    def forward(self, batch):
        outputs = self.albert(batch["input_ids"], batch["input_mask"], batch["segment_ids"])
        sequence = outputs.last_hidden_state
        positions = batch["masked_lm_positions"][..., None].expand(-1, -1, sequence.shape[-1])
        logits = self.masked_lm(sequence.gather(1, positions))
        masked_lm = cross_entropy(logits.float().flatten(0, 1), batch["masked_lm_ids"].flatten())
        order = self.order(outputs.pooler_output).float()
        return masked_lm + cross_entropy(order, batch["next_sentence_labels"][:, 0])


class Classification(torch.nn.Module):
    """`AlbertForSequenceClassification` on a batch."""

    def __init__(self, config):
        super().__init__()
        self.model = transformers.AlbertForSequenceClassification(config)

    def forward(self, batch):
        inputs = batch["input_ids"], batch["input_mask"], batch["segment_ids"]
        if self.training:
            return self.model(*inputs, labels=batch["label_ids"]).loss
        return self.model(*inputs).logits


def prepare(workload: Workload, compiled: bool):
    """Return a function that runs a number of steps."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = transformers.AlbertConfig(
        **{name: workload.config[name] for name in CONFIG_FIELDS},
        hidden_act="gelu_new",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        classifier_dropout_prob=0.0,
        num_labels=2,
    )
    model = (Pretraining if workload.task == "pretraining" else Classification)(config).to(device)
    model.train(workload.task != "inference")
    forward = torch.compile(model) if compiled else model

    types = {"i": torch.long, "f": torch.float32}
    batch = {
        name: torch.from_numpy(array).to(device, types[array.dtype.kind])
        for name, array in workload.batch().items()
    }

    bfloat16 = workload.dtype == "bfloat16"
    precision = functools.partial(torch.autocast, device, torch.bfloat16, enabled=bfloat16)

    if workload.task == "inference":

        def infer(count: int) -> None:
            with torch.inference_mode():
                for _ in range(count):
                    with precision():
                        logits = forward(batch)
                    logits.float().cpu().numpy()

        return infer
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)

    def train(count: int) -> None:
        for _ in range(count):
            with precision():
                loss = forward(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        loss.item()

    return train


def device() -> dict:
    """Return what PyTorch computes on, and the peak memory of this process there, in bytes."""
    if not torch.cuda.is_available():
        return {"platform": "cpu", "name": "cpu", "peak_memory": None}
    return {
        "platform": "gpu",
        "name": torch.cuda.get_device_name(),
        "peak_memory": torch.cuda.max_memory_allocated(),
    }

"""Run by the Python of the peers: what transformers computes from some folders.

    python transformers_outputs.py jobs.json

A job has `folder`, `architecture`, `inputs` (an .npz file) and `outputs`, the .npz file to write.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import torch
import transformers


def main(path: str) -> None:
    transformers.logging.set_verbosity_error()
    with open(path) as file:
        jobs = json.load(file)
    for job in jobs:
        model, info = getattr(transformers, job["architecture"]).from_pretrained(
            job["folder"], output_loading_info=True
        )
        assert not info["missing_keys"], info
        assert not info["mismatched_keys"], info
        inputs = {name: torch.tensor(value) for name, value in np.load(job["inputs"]).items()}
        with torch.no_grad():
            outputs = model.eval()(**inputs)
        np.savez(job["outputs"], **{name: value.numpy() for name, value in outputs.items()})


if __name__ == "__main__":
    main(sys.argv[1])

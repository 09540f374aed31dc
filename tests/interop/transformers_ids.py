"""Run by the Python of the peers: what a tokenizer of transformers makes of some texts.

python transformers_ids.py FOLDER < texts.json > tokenizer.json
"""

from __future__ import annotations

import json
import sys

import transformers


def main(folder: str) -> None:
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    symbols = ("pad", "unk", "cls", "sep", "mask")
    pair = tokenizer("the cat", "a dog")
    found = {
        "length": len(tokenizer),
        "model_max_length": tokenizer.model_max_length,
        "symbols": {name: getattr(tokenizer, f"{name}_token_id") for name in symbols},
        "ids": tokenizer(json.load(sys.stdin))["input_ids"],
        "pair": [pair["input_ids"], pair["token_type_ids"]],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])

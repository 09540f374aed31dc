"""Converts ALBERT weights between formats; `python convert_checkpoint.py --help` lists the flags.

With --to=google, it replaces the original's export_checkpoints.py.

python convert_checkpoint.py --to=huggingface --input=albert_base/ --output=albert-base-hf
"""

from albert_tf.cli.convert import main

if __name__ == "__main__":
    main()

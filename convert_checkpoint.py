"""Converts ALBERT weights between formats; `python convert_checkpoint.py --help` lists the flags.

python convert_checkpoint.py --to=huggingface --input=albert_base/ --output=albert-base-hf
"""

from albert_tf.cli.convert import main

if __name__ == "__main__":
    main()

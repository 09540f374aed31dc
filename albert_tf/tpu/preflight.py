"""The former name of the command `python -m albert_tf.preflight`."""

from albert_tf.preflight.__main__ import cli

if __name__ == "__main__":
    cli()

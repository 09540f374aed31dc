"""The studies of the paper (arXiv 1909.11942) as commands: `python -m experiments NAME`."""

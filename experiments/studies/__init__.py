"""One study a file; see `experiments.study`."""

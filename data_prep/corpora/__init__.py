"""Readers of corpora: `base` defines what a reader yields, `formats` lists the readers."""

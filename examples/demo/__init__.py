"""Pretrains, evaluates, fine-tunes and exports an ALBERT from raw text, and writes a report."""

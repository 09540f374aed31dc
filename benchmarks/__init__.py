"""Benchmarks of this project: `python -m benchmarks`, and separate scripts."""

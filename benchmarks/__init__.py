"""How fast this project is, and beside what: `python -m benchmarks`, and scripts of their own."""

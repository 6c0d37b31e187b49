"""Mistakes of one line that tests must notice: `python -m tests.mutants` makes each in a copy, and runs them."""

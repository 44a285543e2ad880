"""Measurements of speed and memory: ``python -m benchmarks --help``, from the root of the repository."""

"""Data sets, one module per family."""

"""Colour refinement: what tests and layers of some kind can tell apart at most."""

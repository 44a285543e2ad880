"""Batches of graphs, gathered on the device."""

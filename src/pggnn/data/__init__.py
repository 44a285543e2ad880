"""Graphs as data: sets, formats, batches and features."""

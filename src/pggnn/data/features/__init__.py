"""Features and targets that are computed from a graph."""

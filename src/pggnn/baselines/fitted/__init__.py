"""Models that are fitted at once to all training graphs, not trained by gradient: kernels and forests."""

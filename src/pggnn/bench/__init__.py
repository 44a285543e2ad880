"""``pggnn bench``: speed and memory, on a CPU and on a GPU."""

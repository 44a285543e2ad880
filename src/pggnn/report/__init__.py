"""Pages about runs, packed runs, and pictures."""

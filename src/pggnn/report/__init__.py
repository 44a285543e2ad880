"""Pages about runs, runs in compact form, and pictures."""

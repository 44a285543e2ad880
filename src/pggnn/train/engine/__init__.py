"""One training: loop, task, schedule, checkpoints."""

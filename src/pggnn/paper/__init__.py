"""What the paper published: its figures as data, and its tables as sets of runs."""

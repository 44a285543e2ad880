"""``pggnn explore``: one HTML page to play with, of the arrangements, the linear sum, small graphs and a run."""

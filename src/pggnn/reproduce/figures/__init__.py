"""The figures of the paper from code: each module of this folder has a ``draw``."""

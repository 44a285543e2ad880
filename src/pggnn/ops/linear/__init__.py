"""Cells that are linear in their state, h ← a ⊙ h + b: the whole group in O(n) steps."""

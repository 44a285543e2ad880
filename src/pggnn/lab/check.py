"""What a check of a claim found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One claim, looked at."""

    holds: bool
    what: str
    """What was checked, and over what range."""
    note: str = ""
    """What does not hold to the letter."""

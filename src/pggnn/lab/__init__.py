"""The expressivity lab: what tests and aggregators can see, counted and proved on graphs of any kind."""

"""Runs: their folders and protocols, several trainings at once, prediction."""

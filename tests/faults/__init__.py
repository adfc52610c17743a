"""Faults on purpose: kills, pauses, cuts and restarts under a writer of known changes, judged by what consumers see."""

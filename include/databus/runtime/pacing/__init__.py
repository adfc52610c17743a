"""Pacing: how large the next batch is, and how many rows of a snapshot go along with it."""

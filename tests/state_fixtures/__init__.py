"""Stored values of each version, kept to be read by later ones; `python -m tests.state_fixtures` writes ours."""

from pathlib import Path

KEPT = Path(__file__).parents[1] / "fixtures" / "state"
"""Folder of the fixtures, one a version."""

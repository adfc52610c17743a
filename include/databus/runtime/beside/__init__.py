"""Ranges moved beside the live flow: pieces of backfills, replays of held rows, looks."""

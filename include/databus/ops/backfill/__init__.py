"""Use cases of backfills: run, range, status, what is missing."""

"""Observability of a run: time, progress lines, durations. No storage, no framework."""
